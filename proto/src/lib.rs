//! TensorFlow messages.
