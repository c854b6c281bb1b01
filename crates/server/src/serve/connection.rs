//! A TCP connection: its addresses, and whether a request on it was authenticated.

use super::Limits;
use super::unauthenticated::{UnauthenticatedConnections, UnauthenticatedSlot};
use crate::quota::{Quota, QuotaPermit};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Quotas that the connections of a listener share.
#[derive(Debug)]
pub(super) struct ListenerQuotas {
    unauthenticated: Arc<UnauthenticatedConnections>,
    known: Arc<Semaphore>,
    users: Arc<Quota<String>>,
    per_user: usize,
}

impl ListenerQuotas {
    pub(super) fn new(limits: &Limits) -> Arc<ListenerQuotas> {
        Arc::new(ListenerQuotas {
            unauthenticated: UnauthenticatedConnections::new(limits.unknown, limits.unknown_per_address),
            known: Arc::new(Semaphore::new(limits.connections)),
            users: Arc::default(),
            per_user: limits.per_user,
        })
    }
}

/// A TCP connection.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The local address, as the client dialled it.
    pub(crate) local: SocketAddr,
    /// The peer's address.
    pub(crate) peer: SocketAddr,
    places: Arc<ListenerQuotas>,
    auth_state: Mutex<AuthState>,
}

#[derive(Debug)]
enum AuthState {
    Unauthenticated { _until_known: UnauthenticatedSlot },
    Authenticated { _place: OwnedSemaphorePermit, _seat: Option<QuotaPermit<String>> },
}

impl Connection {
    /// A new connection; the second value signals its eviction.
    pub(super) fn new(
        (local, peer): (SocketAddr, SocketAddr),
        places: &Arc<ListenerQuotas>,
    ) -> (Arc<Connection>, Arc<tokio::sync::Notify>) {
        let unauthenticated = places.unauthenticated.add(peer.ip());
        let evicted = unauthenticated.evicted();
        let auth_state = Mutex::new(AuthState::Unauthenticated { _until_known: unauthenticated });
        (Arc::new(Connection { local, peer, places: places.clone(), auth_state }), evicted)
    }

    /// Notes that a request on it was authenticated, as this user or, without one, as the owner. Returns false if the user, or
    /// all users together, have as many connections as they may.
    pub(crate) fn admit(&self, user: Option<String>) -> bool {
        let mut auth_state = self.auth_state.lock().expect("nobody panics while counting connections");
        if let AuthState::Authenticated { .. } = *auth_state {
            return true;
        }
        let seat = match user {
            Some(user) => match self.places.users.acquire(user, self.places.per_user) {
                None => return false,
                seat => seat,
            },
            None => None,
        };
        let Ok(place) = self.places.known.clone().try_acquire_owned() else { return false };
        *auth_state = AuthState::Authenticated { _place: place, _seat: seat };
        true
    }

    /// Whether a request on it was authenticated.
    pub(super) fn is_known(&self) -> bool {
        let auth_state = self.auth_state.lock().expect("nobody panics while counting connections");
        matches!(*auth_state, AuthState::Authenticated { .. })
    }
}
