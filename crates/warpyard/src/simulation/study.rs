//! Simulations put together into a study for the page.

use crate::show::compare::{PolicyFigures, Sample};
use crate::simulation::RunResult;
use warpyard_sim::SimReport;
use warpyard_sim::report::page::{ComparisonPage, PolicyResults, Table};

/// Columns of the summary: heading, figure, and what it means.
const COLUMNS: [(&str, &str, &str); 13] = [
    ("jobs", "jobs", "jobs submitted"),
    ("finished", "finished", "jobs all of whose tasks succeeded"),
    ("mean wait", "average_wait_s", "from being ready to the first start, in seconds"),
    ("mean response", "average_response_s", "from submission to the first start, in seconds"),
    ("mean completion", "average_completion_s", "from submission to the end, in seconds"),
    ("median completion", "p50_completion_s", "median over jobs, in seconds"),
    ("95 % completion", "p95_completion_s", "95th percentile over jobs, in seconds"),
    ("longest wait", "max_wait_s", "of any job, in seconds"),
    ("makespan", "makespan_s", "from the first submission to the last end, in seconds"),
    ("utilisation", "utilisation", "share of GPU time with a task running, until the last end"),
    (
        "weighted turnaround",
        "weighted_turnaround_s",
        "sum of (priority − lowest priority) × completion, in seconds",
    ),
    ("preemptions", "preemptions", "how often a running task was suspended, or asked to save and exit"),
    ("restarts", "restarts", "how often a task was started again"),
];

/// The explanation of a figure.
pub(crate) fn meaning(figure: &str) -> &'static str {
    let column = COLUMNS.iter().find(|(_, key, _)| *key == figure);
    column.map_or("", |(_, _, means)| means)
}

/// A study of what ran under each policy, the simulations of one policy together. Of each policy the first must have been
/// watched for the page to show who was where.
pub(crate) fn study(
    title: String,
    about: Vec<(String, String)>,
    policies: Vec<(String, Vec<RunResult>)>,
    sample: Sample,
) -> Result<ComparisonPage, serde_json::Error> {
    let mut summary = Table {
        how: match sample {
            Sample::Single => "Times in seconds, of one simulation each.".to_owned(),
            Sample::Seeds => {
                let runs = policies.first().map_or(0, |(_, runs)| runs.len());
                format!(
                    "Times in seconds; means over {runs} simulations from as many seeds, the same for every policy, with Student's 95 % interval of the mean where there are several."
                )
            }
        },
        headings: vec![("policy".to_owned(), "how tasks were ordered and placed".to_owned())],
        rows: Vec::new(),
    };
    summary.headings.extend(COLUMNS.map(|(heading, _, means)| (heading.to_owned(), means.to_owned())));
    let mut studied = Vec::new();
    for (name, runs) in policies {
        let (mut jobs, mut timeline, mut seeds, mut reports) = (Vec::new(), None, Vec::new(), Vec::new());
        for (at, RunResult { report, timeline: watched }) in runs.into_iter().enumerate() {
            let SimReport { per_job, .. } = &report;
            let own = per_job.clone().unwrap_or_default();
            if at == 0 {
                timeline = watched;
            }
            seeds.push((report.seed, own.len()));
            jobs.extend(own);
            reports.push(SimReport { per_job: None, ..report });
        }
        let repeated = PolicyFigures::of(&reports, sample)?;
        let cells = COLUMNS.map(|(_, key, _)| repeated.cell(key));
        summary.rows.push([(name.clone(), None)].into_iter().chain(cells).collect());
        studied.push(PolicyResults { name, jobs, seeds, timeline });
    }
    Ok(ComparisonPage { title, about, summary, policies: studied })
}
