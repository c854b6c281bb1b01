//! Uploads of snapshots: first the manifest, then the contents the server does not have yet, separately for each
//! user.

use super::refusal::Refusal;
use super::{App, AppState, CallerExtension};
use crate::caller::Caller;
use crate::replica::Reader;
use crate::select;
use axum::body::{Body, BodyDataStream, Bytes};
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::{Extension, Json};
use futures_core::Stream;
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::io::{self, Read};
use std::pin::Pin;
use tokio::runtime::Handle;
use warpyard_api::problem::{Problem, code};
use warpyard_api::quantity::ByteSize;
use warpyard_api::wire::SnapshotUpload;
use warpyard_core::limits::Caps;
use warpyard_core::spec::{JobSpec, Snapshot};
use warpyard_snapshot::{Hash, Manifest, Store, StoreError};
use warpyard_worker::agent::snapshots_dir;

impl App {
    /// The snapshots of a user.
    fn snapshots(&self, user: &str) -> Store {
        Store::of(&snapshots_dir(&self.data), user)
    }

    /// Attaches a complete snapshot of its user to a job.
    pub(super) fn with_snapshot(
        &self,
        spec: &mut JobSpec,
        whose: &str,
        snapshot: Option<String>,
        wanted: bool,
        from: Option<String>,
    ) -> Result<(), Refusal> {
        let Some(id) = snapshot else {
            return match wanted {
                true => Err(Problem::new(
                    code::NO_SNAPSHOT,
                    "snapshot",
                    "the job requires a snapshot, but none was uploaded",
                )
                .with_help("send it to /v1/snapshots first; `warpyard submit` does")
                .into()),
                false => Ok(()),
            };
        };
        let Some(from) = from else {
            return Err(Problem::new(code::BAD_SNAPSHOT, "workdir", "a snapshot requires a workdir").into());
        };
        let manifest = self.snapshots(whose).manifest(&hash(&id)?)?;
        let (files, bytes) = (manifest.files(), manifest.bytes());
        self.may_hold(&manifest)?;
        spec.snapshot = Some(Box::new(Snapshot { id, of: whose.to_owned(), from, files, bytes }));
        Ok(())
    }
}

impl App {
    /// Refuses a snapshot above the size limit.
    fn may_hold(&self, manifest: &Manifest) -> Result<(), Refusal> {
        let (bytes, most) = (manifest.bytes(), self.quotas.snapshot_limit);
        if bytes > most {
            let why = format!("the snapshot has {bytes} bytes; at most {most} are allowed");
            let problem = Problem::new(code::BAD_SNAPSHOT, "", why);
            return Err(problem.with_help("exclude files that are not needed in .warpyardignore").into());
        }
        Ok(())
    }
}

fn hash(text: &str) -> Result<Hash, Refusal> {
    let unknown = |_| Problem::new(code::NO_SNAPSHOT, "snapshot", format!("there is no snapshot '{text}'"));
    Ok(Hash::try_from(text.to_owned()).map_err(unknown)?)
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Refusal {
        match &error {
            StoreError::Unknown(_) => Problem::new(code::NO_SNAPSHOT, "snapshot", error.to_string()).into(),
            StoreError::Mismatch(_) => Problem::new(code::BAD_SNAPSHOT, "snapshot", error.to_string()).into(),
            StoreError::Io { .. } => Refusal::internal(error),
        }
    }
}

/// The user whose store a caller's snapshots are in: users cannot see each other's.
pub(super) fn whose(who: &Caller) -> String {
    who.name().unwrap_or_default().to_owned()
}

pub(super) async fn announce(
    State(app): AppState,
    Extension(who): CallerExtension,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<SnapshotUpload>, Refusal> {
    let bad = |why: String| Problem::new(code::BAD_SNAPSHOT, "", why);
    let sent: serde_json::Value = app.parsed(&who, &headers, body).await?;
    let check = move || {
        let manifest: Manifest = serde_json::from_value(sent).map_err(|e| e.to_string())?;
        manifest.check().map_err(|e| e.to_string())?;
        Ok(manifest)
    };
    let manifest = app.blocking(&who, check).await?.map_err(bad)?;
    app.may_hold(&manifest)?;
    let most_bytes = app.quotas.snapshot_limit;
    let store = app.snapshots(&whose(&who));
    let quota = app.caps_of(&who);
    let keep = move || {
        if let Some((name, caps)) = quota {
            may_keep(&store, &manifest, &name, &caps)?;
        }
        Ok::<_, Refusal>((manifest.id(), store.announce(&manifest)?))
    };
    let (id, missing) = app.blocking(&who, keep).await??;
    let missing = missing.iter().map(ToString::to_string).collect();
    Ok(Json(SnapshotUpload { snapshot: id.to_string(), missing, most_bytes }))
}

/// Refuses a snapshot above its owner's quota. Contents that are there already cost nothing more.
fn may_keep(store: &Store, manifest: &Manifest, name: &str, caps: &Caps) -> Result<(), Refusal> {
    let nothing = Manifest::default();
    let unlimited = caps.snapshots.is_none() && caps.snapshots_size.is_none();
    if unlimited || *manifest == nothing || store.announced(&manifest.id()).is_ok() {
        return Ok(());
    }
    let (count, bytes) = store.usage().map_err(Refusal::internal)?;
    // Clients learn the size limit by announcing an empty snapshot.
    let count = count - u64::from(store.announced(&nothing.id()).is_ok());
    let over = |message: String| {
        let help = "a snapshot is deleted with its last job; cancel some, or submit without --snapshot";
        Err(Problem::new(code::OVER_LIMIT, "snapshot", message).with_help(help).into())
    };
    if let Some(most) = caps.snapshots.filter(|most| count >= *most) {
        return over(format!("{name} may have {most} snapshots kept (snapshots) and has {count}"));
    }
    let missing: BTreeSet<Hash> = store.missing(manifest).into_iter().collect();
    let more = manifest.distinct().into_iter().filter(|(hash, _)| missing.contains(*hash));
    let more: u64 = more.map(|(_, size)| size).sum();
    match caps.snapshots_size {
        Some(most) if bytes.saturating_add(more) > most => {
            let [most, has, adds] = [most, bytes, more].map(|bytes| ByteSize(bytes).rounded());
            over(format!(
                "{name} may have {most} of snapshots kept (snapshots_size) and has {has}; this adds {adds}"
            ))
        }
        _ => Ok(()),
    }
}

pub(super) async fn receive(
    State(app): AppState,
    Extension(who): CallerExtension,
    Path(id): Path<String>,
    body: Body,
) -> Result<Json<SnapshotUpload>, Refusal> {
    let (store, hash) = (app.snapshots(&whose(&who)), hash(&id)?);
    let manifest = store.announced(&hash)?;
    let most_bytes = app.quotas.snapshot_limit;
    let from = UploadReader { body: body.into_data_stream(), rest: Bytes::new(), runtime: Handle::current() };
    let take = move || store.receive(&manifest, from).map(|()| store.missing(&manifest));
    let missing = tokio::task::spawn_blocking(take).await.map_err(Refusal::internal)??;
    let missing = missing.iter().map(ToString::to_string).collect();
    Ok(Json(SnapshotUpload { snapshot: id, missing, most_bytes }))
}

/// The manifest of a job's snapshot, for its owner.
pub(super) async fn of_job(
    State(app): AppState,
    Extension(who): CallerExtension,
    Path(id): Path<String>,
) -> Result<Json<serde_json::Value>, Refusal> {
    let selector = select::parse(&id, &who)?;
    let look = move |f: &Reader<'_>| {
        let number = select::job_number(f.cluster(), &selector)?;
        let job = f.cluster().job(number).ok_or_else(|| select::unknown_job(number.0))?;
        Ok::<_, Problem>((job.user.clone(), job.spec.snapshot.clone()))
    };
    let (user, snapshot) = app.engine.read(look).await??;
    who.must_own(&user, "look at its snapshot")?;
    let Some(snapshot) = snapshot else {
        return Err(Problem::new(
            code::NO_SNAPSHOT,
            "",
            format!("job {id} was submitted without a snapshot"),
        )
        .with_help("`--snapshot` keeps the directory as it is at submission")
        .into());
    };
    let manifest = app.snapshots(&snapshot.of).manifest(&hash(&snapshot.id)?)?;
    Ok(Json(serde_json::to_value(manifest).map_err(Refusal::internal)?))
}

/// A blocking reader over a request body as it arrives.
struct UploadReader {
    body: BodyDataStream,
    rest: Bytes,
    runtime: Handle,
}

impl Read for UploadReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            let body = &mut self.body;
            let next = self.runtime.block_on(poll_fn(|cx| Pin::new(&mut *body).poll_next(cx)));
            match next {
                None => return Ok(0),
                Some(more) => self.rest = more.map_err(io::Error::other)?,
            }
        }
        let n = into.len().min(self.rest.len());
        into[..n].copy_from_slice(&self.rest.split_to(n));
        Ok(n)
    }
}
