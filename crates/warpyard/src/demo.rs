//! The workload of `up --demo`: a little of everything, on GPUs with nothing behind them, so that there is something to
//! see. Every command only sleeps and prints.

use serde_json::{Value, json};
use warpyard_api::client::{Client, ClientError};
use warpyard_api::wire::SubmitRequest;

/// The devices it is made for.
pub(crate) const GPUS: &str = "fake:4xV100:16GiB,2xK80:12GiB";

/// Submits all of it.
pub(crate) fn submit(client: &Client) -> Result<(), ClientError> {
    for (user, doc) in jobs() {
        let submit = SubmitRequest {
            doc,
            user: Some(user.to_owned()),
            workdir: Some("/".to_owned()),
            env: [("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())].into(),
            login_environment: false,
            snapshot: None,
            terminal: None,
            idempotency_key: None,
        };
        client.submit(&submit)?;
    }
    Ok(())
}

/// The users and commands of the demo's jobs.
fn jobs() -> Vec<(&'static str, Value)> {
    vec![
        (
            "ann",
            json!({"name": "train", "gpus": 2, "gpu_type": "V100", "timeout": "10m", "expected": "3m",
            "command": "for i in $(seq 1 90); do echo epoch $i; sleep 2; done"}),
        ),
        (
            "bob",
            json!({"name": "sweep", "priority": 3, "gpus": 1, "gpu_memory": "4GiB", "timeout": "2m",
            "array": "1-40%6", "command": "echo point %{index}; sleep $((4 + %{index} % 7))"}),
        ),
        (
            "carl",
            json!({"name": "flow", "project": "vision", "tasks": [
            {"name": "prepare", "cpus": 0.5, "timeout": "1m", "command": "sleep 5; echo prepared"},
            {"name": "fit", "after": "prepare", "gpus": 1, "gpu_type": "V100", "timeout": "5m", "array": "0-2",
             "command": "echo fold %{index}; sleep 20"},
            {"name": "report", "after": "fit", "cpus": 0.5, "timeout": "1m", "command": "sleep 2; echo report"}]}),
        ),
        (
            "ann",
            json!({"name": "flaky", "gpus": 1, "gpu_memory": "2GiB", "retries": 2, "timeout": "1m",
            "command": "sleep 3; [ \"$WARPYARD_ATTEMPT\" -ge 2 ] || { echo not yet; exit 3; }; echo done"}),
        ),
        (
            "dora",
            json!({"name": "too-slow", "gpus": 1, "gpu_type": "K80", "timeout": "8s", "grace": "1s",
            "command": "echo started; sleep 600"}),
        ),
        (
            "dora",
            json!({"name": "everything", "gpus": 4, "gpu_type": "V100", "timeout": "3m", "expected": "30s",
            "command": "echo all four; sleep 30"}),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpyard_api::job::{ReadOptions, read_value};

    #[test]
    fn every_job_of_the_demonstration_is_one() {
        for (_, doc) in jobs() {
            let read = read_value(&doc, ReadOptions::default());
            assert!(read.as_ref().is_ok_and(|checked| checked.warnings.is_empty()), "{doc}: {read:?}");
        }
    }
}
