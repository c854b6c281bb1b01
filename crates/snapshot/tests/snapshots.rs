//! Snapshots: a packed and unpacked directory is the same directory, and nothing else is touched.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;
use warpyard_snapshot::{Change, Entry, Hash, Manifest, PackError, PackedDir, Store, changes, unpack};

const MOST: u64 = 1 << 20;

fn write(dir: &Path, name: &str, text: &str) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn project() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "train.py", "print('first')\n");
    write(dir.path(), "lib/model.py", "x = 1\n");
    write(dir.path(), "lib/copy.py", "x = 1\n");
    write(dir.path(), ".gitignore", "*.pt\n/data\n");
    write(dir.path(), ".warpyardignore", "notes\n");
    write(dir.path(), "weights.pt", "large");
    write(dir.path(), "data/a.bin", "large");
    write(dir.path(), "notes/todo", "later");
    write(dir.path(), ".git/HEAD", "ref: refs/heads/main\n");
    write(dir.path(), ".hidden", "kept");
    fs::create_dir(dir.path().join("empty")).unwrap();
    fs::set_permissions(dir.path().join("train.py"), fs::Permissions::from_mode(0o750)).unwrap();
    symlink("lib/model.py", dir.path().join("link.py")).unwrap();
    symlink("/nowhere/at/all", dir.path().join("dangling")).unwrap();
    dir
}

fn names(manifest: &Manifest) -> Vec<&str> {
    manifest.entries.keys().map(String::as_str).collect()
}

fn keep(store: &Store, packed: &PackedDir) -> Hash {
    let missing = store.announce(&packed.manifest).unwrap();
    let mut sent = Vec::new();
    packed.send(&missing, &mut sent).unwrap();
    store.receive(&packed.manifest, &sent[..]).unwrap();
    packed.manifest.id()
}

#[test]
fn a_snapshot_unpacks_to_the_original_directory() {
    let (project, data) = (project(), tempfile::tempdir().unwrap());
    let packed = PackedDir::of(project.path(), MOST).unwrap();
    let expected = [
        ".gitignore",
        ".hidden",
        ".warpyardignore",
        "dangling",
        "empty",
        "lib",
        "lib/copy.py",
        "lib/model.py",
        "link.py",
        "train.py",
    ];
    assert_eq!(names(&packed.manifest), expected, "what is ignored is left out, all else is kept");
    let store = Store::of(data.path(), "ann");
    let id = keep(&store, &packed);
    write(project.path(), "train.py", "print('second')\n");

    let into = data.path().join("work/7");
    unpack(&store, &id, &into, None, MOST).unwrap();
    assert_eq!(fs::read_to_string(into.join("train.py")).unwrap(), "print('first')\n");
    assert_eq!(fs::read_link(into.join("link.py")).unwrap(), Path::new("lib/model.py"));
    let again = PackedDir::of(&into, MOST).unwrap();
    assert_eq!(again.manifest, packed.manifest, "links and modes too");

    // Where others may change what is there nothing is put back.
    fs::set_permissions(data.path().join("work"), fs::Permissions::from_mode(0o777)).unwrap();
    assert!(unpack(&store, &id, &data.path().join("work/8"), None, MOST).is_err());
    fs::set_permissions(data.path().join("work"), fs::Permissions::from_mode(0o711)).unwrap();

    // Unpacking again changes nothing: what the job made there stays.
    write(&into, "made", "by the job");
    unpack(&store, &id, &into, None, MOST).unwrap();
    assert_eq!(fs::read_to_string(into.join("made")).unwrap(), "by the job");
}

#[test]
fn equal_contents_are_stored_and_sent_once() {
    let (project, data) = (project(), tempfile::tempdir().unwrap());
    let store = Store::of(data.path(), "ann");
    let packed = PackedDir::of(project.path(), MOST).unwrap();
    let missing = store.announce(&packed.manifest).unwrap();
    assert_eq!((missing.len(), packed.manifest.files()), (5, 6));
    keep(&store, &packed);
    write(project.path(), "train.py", "print('second')\n");
    let next = PackedDir::of(project.path(), MOST).unwrap();
    assert_eq!(store.announce(&next.manifest).unwrap(), [Hash::of(b"print('second')\n")]);
    // Others have nothing of it, even if they know every hash.
    let others = Store::of(data.path(), "bob");
    assert_eq!(others.announce(&packed.manifest).unwrap().len(), 5);
    assert!(others.manifest(&packed.manifest.id()).is_err(), "it is not all there");
}

#[test]
fn pruning_removes_unneeded_snapshots_and_keeps_shared_contents() {
    let (project, data) = (project(), tempfile::tempdir().unwrap());
    let store = Store::of(data.path(), "ann");
    let first = keep(&store, &PackedDir::of(project.path(), MOST).unwrap());
    write(project.path(), "train.py", "print('second')\n");
    let second = keep(&store, &PackedDir::of(project.path(), MOST).unwrap());
    let needed = BTreeSet::from([second.to_string()]);
    let hour = Duration::from_secs(3600);
    let (before, after) = (SystemTime::now() - hour, SystemTime::now() + hour);
    assert_eq!(Store::prune(data.path(), &needed, before).unwrap(), 0, "all is new");
    assert_eq!(Store::prune(data.path(), &needed, after).unwrap(), 1);
    assert!(store.manifest(&first).is_err());
    let whole = store.manifest(&second).unwrap();
    assert_eq!(store.missing(&whole), []);
    assert_eq!(Store::prune(data.path(), &BTreeSet::new(), after).unwrap(), 1);
    assert_eq!(store.missing(&whole).len(), 5);
}

#[test]
fn contents_that_differ_from_the_manifest_are_rejected() {
    let (project, data) = (project(), tempfile::tempdir().unwrap());
    let store = Store::of(data.path(), "ann");
    let packed = PackedDir::of(project.path(), MOST).unwrap();
    let missing = store.announce(&packed.manifest).unwrap();
    let mut sent = Vec::new();
    packed.send(&missing, &mut sent).unwrap();
    let last = sent.len() - 1;
    sent[last] ^= 1;
    assert!(store.receive(&packed.manifest, &sent[..]).is_err(), "another content");
    assert!(store.receive(&packed.manifest, &sent[..last]).is_err(), "it broke off");
    assert!(store.receive(&Manifest::default(), &sent[..]).is_err(), "nobody announced it");
    assert!(store.manifest(&packed.manifest.id()).is_err());
}

#[test]
fn a_manifest_that_escapes_its_directory_is_not_unpacked() {
    let data = tempfile::tempdir().unwrap();
    let store = Store::of(data.path(), "mallory");
    let mut manifest = Manifest::default();
    manifest.entries.insert("out".into(), Entry::Link { target: data.path().display().to_string() });
    let file = Entry::File { mode: 0o644, size: 0, hash: Hash::of(b"") };
    manifest.entries.insert("out/stolen".into(), file);
    store.announce(&manifest).unwrap();
    let mut empty = Hash::of(b"").as_str().as_bytes().to_vec();
    empty.extend(0u64.to_le_bytes());
    store.receive(&manifest, &empty[..]).unwrap();
    assert!(unpack(&store, &manifest.id(), &data.path().join("work/1"), None, MOST).is_err());
    assert!(!data.path().join("stolen").exists());
}

#[test]
fn a_directory_over_the_limit_is_reported_with_its_largest_file() {
    let project = project();
    write(project.path(), "big.bin", &"x".repeat(4096));
    match PackedDir::of(project.path(), 1000) {
        Err(error @ PackError::TooLarge { .. }) => {
            assert!(error.to_string().contains("big.bin alone has 4096"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn differences_are_reported_by_path() {
    let project = project();
    let before = PackedDir::of(project.path(), MOST).unwrap().manifest;
    write(project.path(), "lib/model.py", "x = 2\n");
    write(project.path(), "lib/new.py", "");
    fs::remove_file(project.path().join(".hidden")).unwrap();
    fs::set_permissions(project.path().join("train.py"), fs::Permissions::from_mode(0o640)).unwrap();
    let now = PackedDir::of(project.path(), MOST).unwrap().manifest;
    let expected = [
        Change::Removed(".hidden".into()),
        Change::Changed("lib/model.py".into()),
        Change::Added("lib/new.py".into()),
        Change::Mode("train.py".into(), 0o750, 0o640),
    ];
    assert_eq!(changes(&before, &now), expected);
}

#[test]
fn a_file_changed_before_sending_is_detected() {
    let dir = project();
    let packed = PackedDir::of(dir.path(), u64::MAX).expect("packed");
    let all: Vec<Hash> = packed.manifest.distinct().into_iter().map(|(hash, _)| hash.clone()).collect();
    packed.send(&all, std::io::sink()).expect("nothing changed");
    // As long as before.
    let text = fs::read_to_string(dir.path().join("train.py")).expect("a file");
    write(dir.path(), "train.py", &"x".repeat(text.len()));
    let sent = packed.send(&all, std::io::sink());
    assert!(matches!(&sent, Err(PackError::Changed(path)) if path.ends_with("train.py")), "{sent:?}");
    fs::remove_file(dir.path().join("train.py")).expect("it was there");
    assert!(matches!(packed.send(&all, std::io::sink()), Err(PackError::Changed(_))));
}

#[test]
fn declared_sizes_are_verified_everywhere() {
    let (project, data) = (project(), tempfile::tempdir().unwrap());
    write(project.path(), "large", &"x".repeat(1 << 16));
    let store = Store::of(data.path(), "ann");
    let packed = PackedDir::of(project.path(), MOST).unwrap();
    let id = keep(&store, &packed);
    // The content is there, so nothing would have to be sent.
    let claims = |size: u64| {
        let file = |mode| Entry::File { mode, size, hash: Hash::of("x".repeat(1 << 16).as_bytes()) };
        Manifest { entries: [("a".into(), file(0o644)), ("b".into(), file(0o600))].into() }
    };
    assert!(claims(0).check().is_ok(), "each by itself is fine");
    assert!(store.announce(&claims(0)).is_err() && store.announce(&claims(1 << 20)).is_err());
    assert_eq!(store.announce(&claims(1 << 16)).unwrap(), []);
    let mut two = claims(1 << 16);
    two.entries.extend(claims(0).entries.into_iter().map(|(name, entry)| (format!("{name}2"), entry)));
    assert!(two.check().is_err(), "one content with two lengths");
    // One that came in before anyone looked is found out when it is put back.
    let manifests = fs::read_dir(data.path()).unwrap().next().unwrap().unwrap().path().join("manifests");
    fs::write(manifests.join(claims(0).id().as_str()), serde_json::to_vec(&claims(0)).unwrap()).unwrap();
    assert!(unpack(&store, &claims(0).id(), &data.path().join("work/1"), None, MOST).is_err());
    assert!(unpack(&store, &id, &data.path().join("work/2"), None, 1 << 16).is_err(), "more than it may");
    unpack(&store, &id, &data.path().join("work/2"), None, MOST).unwrap();
}

#[test]
fn paths_deeper_than_the_limit_are_rejected() {
    let dir = |depth: usize| (vec!["d"; depth].join("/"), Entry::Dir { mode: 0o755 });
    let deep = |depth| Manifest { entries: (1..=depth).map(dir).collect() }.check();
    assert!(deep(200).is_ok() && deep(300).is_err());
}
