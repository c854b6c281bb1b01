//! What the pages share: rendered parts, and the colours of users.
//!
//! Each user has one colour of a palette that people with any colour vision can tell apart, the same on every page.

use axum::body::Bytes;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// What the pages share.
#[derive(Default)]
pub(crate) struct PageCaches {
    pub(crate) rendered: RenderCache,
    pub(crate) colours: Arc<UserColours>,
}

/// The most parts in the cache; when it is full, all are dropped.
const MAX_ENTRIES: usize = 256;

/// The last rendering of each part.
#[derive(Default)]
pub(crate) struct RenderCache(Mutex<HashMap<String, Arc<Slot>>>);

/// Locked while a part is rendered, so that requests meanwhile wait for the same rendering.
pub(crate) type Slot = tokio::sync::Mutex<Option<Rendered>>;

pub(crate) struct Rendered {
    /// The last event it shows.
    pub(crate) seq: u64,
    pub(crate) made: Instant,
    pub(crate) body: Bytes,
}

impl RenderCache {
    /// Drops every part, because of something that is not an event.
    pub(crate) fn clear(&self) {
        self.0.lock().expect("nobody panics here").clear();
    }

    pub(crate) fn slot(&self, key: String) -> Arc<Slot> {
        let mut slots = self.0.lock().expect("nobody panics here");
        if slots.len() >= MAX_ENTRIES {
            slots.clear();
        }
        slots.entry(key).or_default().clone()
    }
}

/// How many colours the palette has.
const COLOURS: usize = 8;

/// How many users are remembered; beyond them only the hash decides.
const REMEMBERED: usize = 4_096;

/// The colours given to users since the server started.
#[derive(Debug, Default)]
pub(crate) struct UserColours(Mutex<HashMap<String, usize>>);

impl UserColours {
    /// The colour of a user: the one their name hashes to, or the next of those that fewest users have. Up to as many
    /// users as there are colours never share one, and nobody's colour changes while the server runs.
    pub(crate) fn of(&self, user: &str) -> usize {
        let mut given = self.0.lock().expect("nobody panics while giving colours");
        if let Some(colour) = given.get(user) {
            return *colour;
        }
        let wanted = hash(user) as usize % COLOURS;
        if given.len() >= REMEMBERED {
            return wanted;
        }
        let mut taken = [0usize; COLOURS];
        given.values().for_each(|colour| taken[*colour] += 1);
        let colours = (0..COLOURS).map(|step| (wanted + step) % COLOURS);
        let colour = colours.min_by_key(|colour| taken[*colour]).unwrap_or(wanted);
        given.insert(user.to_owned(), colour);
        colour
    }
}

/// FNV-1a: the same in every build, unlike the hash of the standard library.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn as_many_users_as_colours_share_none_and_keep_theirs() {
        let colours = UserColours::default();
        let users: Vec<_> = (0..COLOURS).map(|n| format!("user-{n}")).collect();
        let first: Vec<_> = users.iter().map(|user| colours.of(user)).collect();
        assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), COLOURS);
        colours.of("one-more");
        assert_eq!(users.iter().map(|user| colours.of(user)).collect::<Vec<_>>(), first);
    }
}
