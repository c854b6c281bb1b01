//! Storages: reference-counted memory of tensors, drawn from the replayed allocator. Knows which tensors share memory and when
//! the last reference goes; what runs in which order is decided elsewhere.

use crate::allocator::{BlockId, CachingAllocator};

/// Index of a storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StorageId(u32);

#[derive(Debug)]
struct Storage {
    bytes: u64,
    references: u32,
    block: BlockId,
}

/// Every live storage, and how much memory they took at most.
#[derive(Debug)]
pub(crate) struct Storages {
    allocator: CachingAllocator,
    /// Slots are used again, so that long replays stay small.
    slots: Vec<Option<Storage>>,
    vacant: Vec<u32>,
    live: u64,
    peak_live: u64,
}

impl Storages {
    pub(crate) fn new(capacity: Option<u64>) -> Self {
        let allocator = CachingAllocator::with_capacity(capacity);
        Self { allocator, slots: vec![], vacant: vec![], live: 0, peak_live: 0 }
    }

    /// Allocates memory with one reference.
    pub(crate) fn allocate(&mut self, bytes: u64) -> StorageId {
        let storage = Storage { bytes, references: 1, block: self.allocator.allocate(bytes) };
        self.live = self.live.saturating_add(bytes);
        self.peak_live = self.peak_live.max(self.live);
        match self.vacant.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(storage);
                StorageId(slot)
            }
            None => {
                self.slots.push(Some(storage));
                StorageId(self.slots.len() as u32 - 1)
            }
        }
    }

    fn get(&mut self, StorageId(slot): StorageId) -> &mut Storage {
        self.slots[slot as usize].as_mut().expect("a reference keeps its storage alive")
    }

    pub(crate) fn retain(&mut self, id: StorageId) -> StorageId {
        self.get(id).references += 1;
        id
    }

    /// Drops a reference; the last one frees the memory.
    pub(crate) fn release(&mut self, id: StorageId) {
        let storage = self.get(id);
        storage.references -= 1;
        if storage.references == 0 {
            let storage = self.slots[id.0 as usize].take().expect("it was there");
            self.vacant.push(id.0);
            self.live = self.live.saturating_sub(storage.bytes);
            self.allocator.free(storage.block);
        }
    }

    pub(crate) fn release_all(&mut self, ids: impl IntoIterator<Item = StorageId>) {
        for id in ids {
            self.release(id);
        }
    }

    pub(crate) fn is_shared(&mut self, id: StorageId) -> bool {
        self.get(id).references > 1
    }

    pub(crate) fn bytes(&self, StorageId(slot): StorageId) -> u64 {
        self.slots[slot as usize].as_ref().map_or(0, |storage| storage.bytes)
    }

    /// Most bytes of tensors that were alive at once.
    pub(crate) fn peak_live(&self) -> u64 {
        self.peak_live
    }

    /// Most bytes the allocator had taken from the device.
    pub(crate) fn peak_reserved(&self) -> u64 {
        self.allocator.peak_reserved()
    }
}
