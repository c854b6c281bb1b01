//! Stand-in for the binary's `workload`: the options an import has where none are given.

#[derive(Default)]
pub(crate) struct ImportOptions;

impl ImportOptions {
    pub(crate) fn whole_gpu(&self) -> u64 {
        16 << 30
    }
}
