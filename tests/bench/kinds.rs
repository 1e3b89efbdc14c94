//! A kind is a form that the model is in: a format, and for torch also which of its containers.

/// A form of models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Torch,
    Safetensors,
    Bundle,
    /// The stream of torch before 1.6.
    Legacy,
    /// A folder of `torch.distributed.checkpoint`, from two ranks.
    Dcp,
    /// A folder of DeepSpeed's ZeRO stage 3, from eight ranks.
    Zero3,
    /// Safetensors with F32 weights, which are cast to BF16.
    Cast,
    /// A GGUF file of floats.
    Gguf,
    /// One array of NumPy's.
    Npy,
    /// Arrays of NumPy's, stored.
    Npz,
    /// A model of ONNX whose tensors lie in a file of their own.
    Onnx,
}

/// What is converted into what.
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

/// How a kind's model is made of the one in safetensors.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Recipe {
    /// It is that one.
    Itself,
    /// By `ferry convert` with these options.
    Conversion(&'static [&'static str]),
    /// It has weights of its own.
    Weights,
    /// By a script of `tests/python`, because `ferry` only reads it.
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

    /// The format's id.
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

    /// What it is called in the tables and on the command line.
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

    /// What a conversion from it is told.
    pub(crate) fn options(self) -> &'static [&'static str] {
        match self {
            Self::Cast => &["--step", "cast:bf16"],
            _ => &[],
        }
    }

    /// A model's files and folders, first the one with the tensors.
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

    /// What a command names: the file or folder, or what a bundle's files start with.
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
