//! `resume`: of paused tasks, or of a drained worker.

use super::act::act;
use super::workers;
use crate::context::Context;
use crate::exit::Exit;
use clap::Args;
use warpyard_api::selector::Selector;

/// How arguments are told apart, for the help.
pub(crate) const TARGETS: &str = "\
A selector (412, 412.train, 3-7, last, all) names jobs or tasks, whose paused tasks are resumed. Any other name is \
a worker's, which accepts tasks again after `drain`; without a name, it is the only worker.";

/// Arguments of `resume`.
#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// Jobs or tasks to resume, or a drained worker
    #[arg(value_name = "J|WORKER")]
    names: Vec<String>,
    /// A worker, even if its name looks like a job
    #[arg(long, value_name = "WORKER", conflicts_with = "names")]
    worker: Option<String>,
}

/// What to resume.
#[derive(Debug, PartialEq, Eq)]
enum ResumeTarget {
    Tasks(String),
    Worker(Option<String>),
}

impl Resume {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match self.target() {
            ResumeTarget::Tasks(selector) => {
                act(context, ("resume", "resumed"), |client| client.resume(&selector))
            }
            ResumeTarget::Worker(name) => {
                let client = context.client()?;
                let worker = client.resume_worker(&workers::named(&client, name)?)?;
                workers::answer(context, &worker)
            }
        }
    }

    fn target(self) -> ResumeTarget {
        let text = self.names.join(",");
        match self.worker {
            Some(worker) => ResumeTarget::Worker(Some(worker)),
            None if self.names.is_empty() => ResumeTarget::Worker(None),
            None if text.parse::<Selector>().is_ok() => ResumeTarget::Tasks(text),
            None => ResumeTarget::Worker(Some(text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_is_a_job_and_any_other_word_a_worker() {
        let what = |names: &[&str]| {
            Resume { names: names.iter().map(ToString::to_string).collect(), worker: None }.target()
        };
        assert_eq!(what(&["412.train", "3-7"]), ResumeTarget::Tasks("412.train,3-7".to_owned()));
        assert_eq!(what(&["last"]), ResumeTarget::Tasks("last".to_owned()));
        assert_eq!(what(&["gpu1"]), ResumeTarget::Worker(Some("gpu1".to_owned())));
        assert_eq!(what(&[]), ResumeTarget::Worker(None));
        let named = Resume { names: Vec::new(), worker: Some("7".to_owned()) };
        assert_eq!(named.target(), ResumeTarget::Worker(Some("7".to_owned())));
    }
}
