//! What tokens let in, and for how long.

use super::*;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn join(uses: u32) -> NewToken {
    NewToken { label: None, lasts: 3600, kind: NewKind::Join { uses, vouch: false } }
}

fn personal(user: &str, lasts: u64) -> NewToken {
    let kind = NewKind::Personal { user: Some(user.into()), uid: None, role: Role::User, vouched_by: None };
    NewToken { label: Some("laptop".into()), lasts, kind }
}

fn key() -> String {
    Secret::generate().expect("random bytes").as_str().to_owned()
}

fn worker_of(tokens: &Tokens, key: &str) -> Option<String> {
    match tokens.bearer(key) {
        Some(Bearer::Worker(name)) => Some(name),
        _ => None,
    }
}

fn opened() -> (tempfile::TempDir, Tokens) {
    let data = tempfile::tempdir().expect("a directory");
    let tokens = Tokens::open(data.path(), Clock::system()).expect("tokens");
    (data, tokens)
}

/// Moves every moment in the file into the past.
fn expire(data: &Path) {
    let path = data.join(file::NAME);
    let mut state = file::read(&path).expect("a file");
    state.personal.values_mut().for_each(|entry| entry.expires = entry.created);
    state.joins.values_mut().for_each(|entry| entry.expires = entry.created);
    file::write(&path, &state).expect("a file");
}

#[test]
fn a_join_token_with_n_uses_admits_n_workers_however_many_ask_at_once() {
    let (data, tokens) = opened();
    let (secret, _) = tokens.create(join(3)).expect("a token");
    let (tokens, admitted) = (Arc::new(tokens), Arc::new(AtomicUsize::new(0)));
    std::thread::scope(|scope| {
        for n in 0..12 {
            let (tokens, admitted, secret) = (tokens.clone(), admitted.clone(), secret.clone());
            scope.spawn(move || match tokens.redeem_join(secret.as_str(), &format!("w{n}"), &key()) {
                Ok(_) => drop(admitted.fetch_add(1, Ordering::Relaxed)),
                Err(refused) => assert!(matches!(refused, TokenRefusal::UsedUp), "{refused}"),
            });
        }
    });
    assert_eq!(admitted.load(Ordering::Relaxed), 3);
    drop(tokens);
    let again = Tokens::open(data.path(), Clock::system()).expect("tokens");
    let refused = again.redeem_join(secret.as_str(), "late", &key()).expect_err("it is used up");
    assert!(matches!(refused, TokenRefusal::UsedUp), "also after a restart: {refused}");
    assert_eq!(again.state().workers.len(), 3);
}

#[test]
fn a_join_whose_answer_was_lost_is_repeated_without_another_use() {
    let (_data, tokens) = opened();
    let (secret, _) = tokens.create(join(1)).expect("a token");
    let own = key();
    for _ in 0..3 {
        tokens.redeem_join(secret.as_str(), "gpu1", &own).expect("the same worker");
    }
    assert_eq!(worker_of(&tokens, &own).as_deref(), Some("gpu1"));
    let other = tokens.redeem_join(secret.as_str(), "gpu1", &key()).expect_err("another worker");
    assert!(matches!(other, TokenRefusal::UsedUp), "{other}");
}

#[test]
fn a_name_is_given_to_one_worker_until_it_is_forgotten_and_a_key_never_again() {
    let (_data, tokens) = opened();
    let (secret, _) = tokens.create(join(9)).expect("a token");
    let (first, second) = (key(), key());
    tokens.redeem_join(secret.as_str(), "gpu1", &first).expect("the first");
    let taken = tokens.redeem_join(secret.as_str(), "gpu1", &second).expect_err("a duplicate");
    assert!(matches!(&taken, TokenRefusal::NameTaken(name) if name == "gpu1"), "{taken}");
    let both = tokens.redeem_join(secret.as_str(), "gpu2", &first).expect_err("one key, two names");
    assert!(matches!(&both, TokenRefusal::NameTaken(name) if name == "gpu1"), "{both}");
    assert!(tokens.revoke_worker("gpu1").expect("stored") && !tokens.revoke_worker("gpu1").expect("stored"));
    assert_eq!(worker_of(&tokens, &first), None);
    let replayed = tokens.redeem_join(secret.as_str(), "gpu1", &first).expect_err("a revoked key");
    assert!(matches!(replayed, TokenRefusal::KeyRevoked), "{replayed}");
    tokens.redeem_join(secret.as_str(), "gpu1", &second).expect("the name is free again");
    assert_eq!(tokens.list()[0].kind, ListedKind::Join { uses_left: 7, vouch: false });
}

#[test]
fn tokens_count_until_they_expire_or_are_revoked_and_only_their_digests_are_stored() {
    let (data, tokens) = opened();
    let (secret, listed) = tokens.create(personal("ann", 3600)).expect("a token");
    let (joins, _) = tokens.create(join(1)).expect("a token");
    let own = key();
    let ann = Bearer::Person {
        id: listed.id.clone(),
        user: Some("ann".into()),
        uid: None,
        role: Role::User,
        vouched_by: None,
    };
    assert_eq!(tokens.bearer(secret.as_str()), Some(ann.clone()));
    assert_eq!(tokens.bearer(joins.as_str()), None, "a join token only joins");
    assert_eq!(tokens.holder(&listed.id), Some(ann));
    tokens.redeem_join(joins.as_str(), "gpu1", &own).expect("a worker");
    assert_eq!(tokens.bearer(&own), Some(Bearer::Worker("gpu1".into())));
    let path = data.path().join(file::NAME);
    let text = std::fs::read_to_string(&path).expect("a file");
    for secret in [secret.as_str(), joins.as_str(), &own] {
        assert!(!text.contains(&secret[4..]), "a secret is in {text}");
    }
    assert_eq!(std::fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);
    expire(data.path());
    let tokens = Tokens::open(data.path(), Clock::system()).expect("tokens");
    assert_eq!(tokens.bearer(secret.as_str()), None, "it has expired");
    assert_eq!(tokens.holder(&listed.id), None);
    assert!(tokens.list().iter().all(|listed| listed.expired));
    let refused = tokens.redeem_join(joins.as_str(), "gpu2", &key()).expect_err("it has expired");
    assert!(matches!(refused, TokenRefusal::Expired), "{refused}");
    assert_eq!(tokens.bearer(&own), Some(Bearer::Worker("gpu1".into())), "a worker's key does not expire");
    let (secret, listed) = tokens.create(personal("ann", 3600)).expect("a token");
    tokens.revoke(&tokens.find(&listed.id[..8]).expect("one token").id).expect("stored");
    assert_eq!(tokens.bearer(secret.as_str()), None, "it was revoked");
    assert!(matches!(tokens.find(&listed.id), Err(TokenRefusal::NoSuchToken(_))));
}

#[test]
fn a_change_that_cannot_be_stored_does_not_count() {
    let (data, tokens) = opened();
    let (secret, _) = tokens.create(join(1)).expect("a token");
    std::fs::create_dir_all(data.path().join(".tokens.json/in the way")).expect("a directory");
    let own = key();
    let refused = tokens.redeem_join(secret.as_str(), "gpu1", &own).expect_err("it cannot be stored");
    assert!(matches!(refused, TokenRefusal::Storage(_)), "{refused}");
    assert_eq!(worker_of(&tokens, &own), None);
    std::fs::remove_dir_all(data.path().join(".tokens.json")).expect("it is there");
    tokens.redeem_join(secret.as_str(), "gpu1", &own).expect("the use was not lost");
}

#[test]
fn a_file_that_cannot_be_read_is_not_replaced() {
    let (data, _) = opened();
    let path = data.path().join(file::NAME);
    std::fs::write(&path, "{\"half").expect("a file");
    let error = Tokens::open(data.path(), Clock::system()).err().expect("half a file").to_string();
    assert!(error.contains("tokens.json") && error.contains("join again"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).expect("a file"), "{\"half");
}

#[test]
fn what_is_vouched_for_ends_with_the_worker() {
    let (_data, tokens) = opened();
    let vouch = NewToken { label: None, lasts: 60, kind: NewKind::Join { uses: 1, vouch: true } };
    let (secret, _) = tokens.create(vouch).expect("a token");
    assert!(tokens.redeem_join(secret.as_str(), "gpu1", &key()).expect("a worker"), "it may vouch");
    let kind = NewKind::Personal {
        user: Some("ann".into()),
        uid: None,
        role: Role::User,
        vouched_by: Some("gpu1".into()),
    };
    let (hers, _) = tokens.create(NewToken { label: None, lasts: 60, kind }).expect("a token");
    let (other, _) = tokens.create(personal("ann", 60)).expect("a token");
    tokens.revoke_worker("gpu1").expect("stored");
    assert_eq!(tokens.bearer(hers.as_str()), None);
    assert!(tokens.bearer(other.as_str()).is_some() && !tokens.may_vouch("gpu1"));
}

#[test]
fn input_is_bounded() {
    let (_data, tokens) = opened();
    let (secret, _) = tokens.create(join(1)).expect("a token");
    let long = "x".repeat(65);
    for name in ["", "..", ".hidden", "a/b", "a b", "a\n", "ä", &long] {
        let refused = tokens.redeem_join(secret.as_str(), name, &key()).expect_err("not a name");
        assert!(matches!(refused, TokenRefusal::BadName(_)), "{name}: {refused}");
    }
    for weak in ["", "hunter2", "wys_aGk"] {
        let refused = tokens.redeem_join(secret.as_str(), "gpu1", weak).expect_err("not a key");
        assert!(matches!(refused, TokenRefusal::BadKey(_)), "{weak}: {refused}");
    }
    for wrong in ["", "wys_x", key().as_str()] {
        let refused = tokens.redeem_join(wrong, "gpu1", &key()).expect_err("not the secret");
        assert!(matches!(refused, TokenRefusal::Unknown), "{wrong}: {refused}");
    }
    assert!(tokens.create(join(0)).is_err() && tokens.create(personal("ann", 0)).is_err());
    assert!(tokens.create(NewToken { label: Some("\u{1b}[2J".into()), ..join(1) }).is_err());
    (0..OF_ONE).for_each(|_| drop(tokens.create(personal("ann", 60)).expect("a token")));
    assert!(matches!(tokens.create(personal("ann", 60)), Err(TokenRefusal::TooMany { .. })));
    tokens.create(personal("bob", 60)).expect("others have room");
}
