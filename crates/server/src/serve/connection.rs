//! A connection through a port: where it came in, from whom, and whether it is known by now whose it is.

use super::Limits;
use super::newcomers::{Newcomer, Newcomers};
use super::seats::{Seat, Seats};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What the connections of a listener share.
#[derive(Debug)]
pub(super) struct Places {
    newcomers: Arc<Newcomers>,
    known: Arc<Semaphore>,
    users: Arc<Seats<String>>,
    per_user: usize,
}

impl Places {
    pub(super) fn new(limits: &Limits) -> Arc<Places> {
        Arc::new(Places {
            newcomers: Newcomers::new(limits.unknown, limits.unknown_per_address),
            known: Arc::new(Semaphore::new(limits.connections)),
            users: Arc::default(),
            per_user: limits.per_user,
        })
    }
}

/// A connection through a port.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The address it came in at, as its client dialled it.
    pub(crate) local: SocketAddr,
    /// Its other end.
    pub(crate) peer: SocketAddr,
    places: Arc<Places>,
    standing: Mutex<Standing>,
}

#[derive(Debug)]
enum Standing {
    Unknown { _until_known: Newcomer },
    Known { _place: OwnedSemaphorePermit, _seat: Option<Seat<String>> },
}

impl Connection {
    /// One that just came in; signalled by the second value when it has to give way.
    pub(super) fn new(
        (local, peer): (SocketAddr, SocketAddr),
        places: &Arc<Places>,
    ) -> (Arc<Connection>, Arc<tokio::sync::Notify>) {
        let newcomer = places.newcomers.add(peer.ip());
        let evicted = newcomer.evicted();
        let standing = Mutex::new(Standing::Unknown { _until_known: newcomer });
        (Arc::new(Connection { local, peer, places: places.clone(), standing }), evicted)
    }

    /// Notes that a request on it was let in, as this user's or, without one, as the owner's. Whether there is room for
    /// it: a user may have so many, and all together so many.
    pub(crate) fn admit(&self, user: Option<&str>) -> bool {
        let mut standing = self.standing.lock().expect("nobody panics while counting connections");
        if let Standing::Known { .. } = *standing {
            return true;
        }
        let seat = match user {
            Some(user) => match self.places.users.take(user.to_owned(), self.places.per_user) {
                None => return false,
                seat => seat,
            },
            None => None,
        };
        let Ok(place) = self.places.known.clone().try_acquire_owned() else { return false };
        *standing = Standing::Known { _place: place, _seat: seat };
        true
    }

    /// Whether it is known whose it is.
    pub(super) fn is_known(&self) -> bool {
        let standing = self.standing.lock().expect("nobody panics while counting connections");
        matches!(*standing, Standing::Known { .. })
    }
}
