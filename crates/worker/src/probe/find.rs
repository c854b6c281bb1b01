//! Choice of the probe: the one asked for, or the first that finds a GPU.

use std::error::Error;
use std::path::PathBuf;
use std::str::FromStr;

use super::{Amd, Declared, DeclaredError, Gpu, Nvidia, Probe, ProbeError, Reading, Vendor};

/// The choice of GPUs, from `--gpus`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Choice {
    /// Whatever the machine has: NVIDIA's, else AMD's, else none.
    #[default]
    Auto,
    /// No GPU, even if the machine has some.
    None,
    /// Devices with nothing behind them.
    Declared(Declared),
}

/// What is wrong with a choice of GPUs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// It is no known choice.
    #[error("'{found}' is not a choice of GPUs; write auto, none, or fake:4xV100:16GiB,2xK80:12GiB")]
    Unknown {
        /// What was written.
        found: String,
    },
    /// The declaration after `fake:` is wrong.
    #[error(transparent)]
    Declared(#[from] DeclaredError),
}

impl FromStr for Choice {
    type Err = ChoiceError;

    /// Reads `auto`, `none` or `fake:…`.
    ///
    /// ```
    /// # use warpyard_worker::probe::Choice;
    /// assert_eq!("auto".parse(), Ok(Choice::Auto));
    /// assert!("fake:4xV100:16GiB,2xK80:12GiB".parse::<Choice>().is_ok());
    /// ```
    fn from_str(text: &str) -> Result<Self, ChoiceError> {
        match text.trim() {
            "auto" => Ok(Self::Auto),
            "none" => Ok(Self::None),
            other => match other.strip_prefix("fake:") {
                Some(devices) => Ok(Self::Declared(devices.parse()?)),
                None => Err(ChoiceError::Unknown { found: other.to_owned() }),
            },
        }
    }
}

/// The paths where drivers are looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbePaths {
    /// NVML's path; without one the loader searches for the driver's.
    pub nvml_library: Option<PathBuf>,
    /// The directory that holds `sys`: `/` outside tests.
    pub root: PathBuf,
}

impl Default for ProbePaths {
    fn default() -> Self {
        Self { nvml_library: None, root: PathBuf::from("/") }
    }
}

/// Opens the probe that was asked for.
///
/// On a machine without GPUs [`Choice::Auto`] gives [`NoProbe`], whose [`Probe::describe`] says what was looked for.
/// A library that was named but cannot be used is an error.
pub fn find(choice: &Choice, places: &ProbePaths) -> Result<Box<dyn Probe>, ProbeError> {
    match choice {
        Choice::None => Ok(Box::new(NoProbe { because: "no GPU is used, as asked".to_owned() })),
        Choice::Declared(declared) => Ok(Box::new(declared.clone())),
        Choice::Auto => look(places),
    }
}

fn look(places: &ProbePaths) -> Result<Box<dyn Probe>, ProbeError> {
    let mut without = Vec::new();
    match Nvidia::open(places.nvml_library.as_deref()).and_then(any) {
        Ok(Ok(nvidia)) => return Ok(Box::new(nvidia)),
        Ok(Err(described)) => without.push(described),
        Err(error) if places.nvml_library.is_some() => return Err(error),
        Err(error) => without.push(format!("NVIDIA GPUs: {}", with_causes(&error))),
    }
    match any(Amd::at(&places.root))? {
        Ok(amd) => return Ok(Box::new(amd)),
        Err(described) => without.push(described),
    }
    Ok(Box::new(NoProbe { because: format!("no GPU found; looked for {}", without.join("; for ")) }))
}

/// The probe if it finds a GPU, else where it looked.
fn any<P: Probe>(mut probe: P) -> Result<Result<P, String>, ProbeError> {
    let found = !probe.gpus()?.is_empty();
    Ok(if found { Ok(probe) } else { Err(format!("{}: none there", probe.describe())) })
}

/// An error and what caused it, on one line. A cause whose text the error already shows is not said twice.
fn with_causes(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !line.ends_with(&text) {
            line = format!("{line}: {text}");
        }
        cause = error.source();
    }
    line
}

/// The probe of a machine without GPUs, or whose GPUs are not to be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoProbe {
    because: String,
}

impl Probe for NoProbe {
    fn vendor(&self) -> Vendor {
        Vendor::None
    }

    fn describe(&self) -> String {
        self.because.clone()
    }

    fn gpus(&mut self) -> Result<Vec<Gpu>, ProbeError> {
        Ok(Vec::new())
    }

    fn read(&mut self, uuid: &str) -> Result<Reading, ProbeError> {
        Err(ProbeError::Lost { uuid: uuid.to_owned(), source: None })
    }
}
