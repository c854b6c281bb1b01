//! Placement on machines: jobs that keep their type keep their GPUs; the others go where they fit tightest.

use super::{Candidate, Placement, Server};

/// Free GPUs by server.
pub(super) struct FreeGpus<'a> {
    servers: &'a [Server],
    free: Vec<u32>,
}

impl<'a> FreeGpus<'a> {
    pub(super) fn new(servers: &'a [Server]) -> Self {
        Self { servers, free: servers.iter().map(|server| server.gpus).collect() }
    }

    /// Places every job on GPUs of its chosen type; the choice respects the totals per type.
    pub(super) fn place(
        mut self,
        candidates: &[Candidate],
        chosen: &[Option<usize>],
    ) -> Vec<Option<Placement>> {
        let mut placed: Vec<Option<Placement>> = vec![None; candidates.len()];
        for (i, candidate) in candidates.iter().enumerate() {
            let stays = candidate.running.as_ref().filter(|running| chosen[i] == Some(running.gpu_type));
            if let Some(stays) = stays {
                stays.servers.iter().for_each(|&(server, gpus)| self.free[server] -= gpus);
                placed[i] = Some(stays.clone());
            }
        }
        // Widest first: they are the hardest to keep on one server.
        let mut unplaced: Vec<usize> =
            (0..candidates.len()).filter(|&i| placed[i].is_none() && chosen[i].is_some()).collect();
        unplaced.sort_by_key(|&i| (std::cmp::Reverse(candidates[i].gpus), i));
        for i in unplaced {
            placed[i] = chosen[i].map(|gpu_type| self.best_fit(gpu_type, candidates[i].gpus));
        }
        placed
    }

    /// Best fit: the fullest server that holds the whole job; otherwise the emptiest ones, as few as possible.
    fn best_fit(&mut self, gpu_type: usize, gpus: u32) -> Placement {
        let of_type = || (0..self.servers.len()).filter(|&s| self.servers[s].gpu_type == gpu_type);
        let whole = of_type().filter(|&s| self.free[s] >= gpus).min_by_key(|&s| self.free[s]);
        let mut servers = Vec::new();
        if let Some(server) = whole {
            self.free[server] -= gpus;
            return Placement { gpu_type, servers: vec![(server, gpus)] };
        }
        let mut emptiest: Vec<usize> = of_type().filter(|&s| self.free[s] > 0).collect();
        emptiest.sort_by_key(|&s| (std::cmp::Reverse(self.free[s]), s));
        let mut left = gpus;
        for server in emptiest {
            let takes = left.min(self.free[server]);
            self.free[server] -= takes;
            left -= takes;
            servers.push((server, takes));
            if left == 0 {
                break;
            }
        }
        assert_eq!(left, 0, "the choice of types never gives out more GPUs than there are");
        Placement { gpu_type, servers }
    }
}
