//! The forms that a model can have: a format, and for torch also one of its containers.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Torch,
    Safetensors,
    Bundle,
    /// The stream format of torch before 1.6.
    Legacy,
    /// A `torch.distributed.checkpoint` folder from two ranks.
    Dcp,
    /// A DeepSpeed ZeRO-3 folder from eight ranks.
    Zero3,
    /// Safetensors with F32 weights, which are cast to BF16.
    Cast,
    /// A GGUF file of floats.
    Gguf,
    /// One NumPy array.
    Npy,
    /// NumPy arrays, stored without compression.
    Npz,
    /// An ONNX model whose tensors are in a separate file.
    Onnx,
}

/// The input and output of each conversion.
pub(crate) const CONVERSIONS: [(Kind, Kind); 16] = [
    (Kind::Torch, Kind::Safetensors),
    (Kind::Safetensors, Kind::Torch),
    (Kind::Safetensors, Kind::Safetensors),
    (Kind::Bundle, Kind::Safetensors),
    (Kind::Safetensors, Kind::Bundle),
    (Kind::Legacy, Kind::Safetensors),
    (Kind::Dcp, Kind::Safetensors),
    (Kind::Zero3, Kind::Safetensors),
    (Kind::Cast, Kind::Safetensors),
    (Kind::Gguf, Kind::Safetensors),
    (Kind::Safetensors, Kind::Gguf),
    (Kind::Npy, Kind::Safetensors),
    (Kind::Npy, Kind::Npy),
    (Kind::Npz, Kind::Safetensors),
    (Kind::Npz, Kind::Npz),
    (Kind::Onnx, Kind::Safetensors),
];

/// The way to create a kind's model from the safetensors model.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Recipe {
    /// The safetensors file itself is the model.
    Itself,
    /// Runs `ferry convert` with these options.
    Conversion(&'static [&'static str]),
    /// The benchmark writes different weights, as F32.
    Weights,
    /// Runs a script of `tests/python`, because `ferry` only reads the format.
    Script(&'static str),
}

impl Kind {
    pub(crate) const ALL: [Self; 11] = [
        Self::Torch,
        Self::Safetensors,
        Self::Bundle,
        Self::Legacy,
        Self::Dcp,
        Self::Zero3,
        Self::Cast,
        Self::Gguf,
        Self::Npy,
        Self::Npz,
        Self::Onnx,
    ];

    /// Returns the format's id.
    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::Torch | Self::Legacy => "torch",
            Self::Safetensors | Self::Cast => "safetensors",
            Self::Bundle => "tf-bundle",
            Self::Dcp => "torch-dcp",
            Self::Zero3 => "deepspeed",
            Self::Gguf => "gguf",
            Self::Npy | Self::Npz => "numpy",
            Self::Onnx => "onnx",
        }
    }

    /// Returns the kind's name in the tables and on the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Torch => "pt",
            Self::Safetensors => "safetensors",
            Self::Bundle => "bundle",
            Self::Legacy => "legacy",
            Self::Dcp => "dcp",
            Self::Zero3 => "zero3",
            Self::Cast => "cast",
            Self::Gguf => "gguf",
            Self::Npy => "npy",
            Self::Npz => "npz",
            Self::Onnx => "onnx",
        }
    }

    /// Returns the options of a conversion from this kind.
    pub(crate) fn options(self) -> &'static [&'static str] {
        match self {
            Self::Cast => &["--step", "cast:bf16"],
            _ => &[],
        }
    }

    /// Returns a model's files and folders. The first one contains the tensors.
    pub(crate) fn files(self, model: &str) -> Vec<String> {
        match self {
            Self::Torch => vec![format!("{model}.pt")],
            Self::Safetensors => vec![format!("{model}.safetensors")],
            Self::Bundle => vec![format!("{model}.data-00000-of-00001"), format!("{model}.index")],
            Self::Legacy => vec![format!("{model}.legacy.pt")],
            Self::Dcp => vec![format!("{model}.dcp")],
            Self::Zero3 => vec![format!("{model}.zero3")],
            Self::Cast => vec![format!("{model}.f32.safetensors")],
            Self::Gguf => vec![format!("{model}.gguf")],
            Self::Npy => vec![format!("{model}.npy")],
            Self::Npz => vec![format!("{model}.npz")],
            Self::Onnx => vec![format!("{model}.onnx.data"), format!("{model}.onnx")],
        }
    }

    /// Returns the input of a command: the file or folder, or the prefix of a bundle's files.
    pub(crate) fn name(self, model: &str) -> String {
        match self {
            Self::Bundle => model.to_owned(),
            Self::Onnx => format!("{model}.onnx"),
            _ => self.files(model).swap_remove(0),
        }
    }

    pub(crate) fn is_folder(self) -> bool {
        matches!(self, Self::Dcp | Self::Zero3)
    }

    pub(crate) fn recipe(self) -> Recipe {
        match self {
            Self::Safetensors => Recipe::Itself,
            Self::Torch | Self::Bundle | Self::Gguf => Recipe::Conversion(&[]),
            Self::Npy | Self::Npz | Self::Onnx => Recipe::Script("bench_arrays.py"),
            Self::Legacy => Recipe::Conversion(&["-o", "format=legacy"]),
            Self::Dcp => Recipe::Script("bench_dcp.py"),
            Self::Zero3 => Recipe::Script("bench_zero3.py"),
            Self::Cast => Recipe::Weights,
        }
    }
}
