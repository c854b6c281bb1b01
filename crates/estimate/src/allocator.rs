//! PyTorch's caching allocator for CUDA, replayed: requests are rounded to 512 bytes, served best-fit from cached blocks that
//! are split and merged, and segments of 2 MiB, 20 MiB or more are taken from the device when none fits. What it has taken is
//! what a GPU's tools show as used. Constants and rules are those of `c10/cuda/CUDACachingAllocator.cpp` with default settings.

use std::collections::BTreeSet;

const MIN_BLOCK: u64 = 512;
/// Requests up to this come from the small pool.
const SMALL_REQUEST: u64 = 1 << 20;
const SMALL_SEGMENT: u64 = 2 << 20;
const LARGE_SEGMENT: u64 = 20 << 20;
/// Requests from this on get a segment of their own size, rounded up to [`LARGE_ROUNDING`].
const MIN_OWN_SEGMENT: u64 = 10 << 20;
const LARGE_ROUNDING: u64 = 2 << 20;

/// A block handed out; given back with [`CachingAllocator::free`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockId(u32);

/// A contiguous piece of a segment. Neighbours within the segment are linked, so that merging needs no search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Block {
    size: u64,
    address: u64,
    pool: Pool,
    state: BlockState,
    previous: Option<BlockId>,
    next: Option<BlockId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockState {
    Allocated,
    Free,
    /// The slot belongs to no block: it was merged into a neighbour or its segment was returned.
    Vacant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pool {
    Small,
    Large,
}

/// Free blocks by size, then address: the first that is large enough is the best fit.
type FreeList = BTreeSet<(u64, u64, BlockId)>;

/// The allocator's state. Addresses are virtual: a segment's address only orders it among equally large ones.
#[derive(Debug, Default)]
pub struct CachingAllocator {
    blocks: Vec<Block>,
    /// Vacant slots of `blocks`, used again first.
    vacant: Vec<BlockId>,
    free_small: FreeList,
    free_large: FreeList,
    next_address: u64,
    capacity: Option<u64>,
    allocated: u64,
    reserved: u64,
    peak_allocated: u64,
    peak_reserved: u64,
}

impl CachingAllocator {
    /// An allocator that may take at most `capacity` bytes from its device. When it would exceed them it first returns cached
    /// segments that are wholly free, as PyTorch does before it reports that memory has run out.
    pub fn with_capacity(capacity: Option<u64>) -> Self {
        Self { capacity, ..Self::default() }
    }

    /// Hands out a block of at least `bytes`.
    pub fn allocate(&mut self, bytes: u64) -> BlockId {
        let size = bytes.max(1).checked_next_multiple_of(MIN_BLOCK).unwrap_or(u64::MAX - MIN_BLOCK + 1);
        let pool = if size <= SMALL_REQUEST { Pool::Small } else { Pool::Large };
        let found = self.free_of(pool).range((size, 0, BlockId(0))..).next().copied();
        let id = match found {
            Some(entry @ (_, _, id)) => {
                self.free_of(pool).remove(&entry);
                id
            }
            None => self.take_segment(size, pool),
        };
        self.split(id, size);
        let block = self.block_mut(id);
        block.state = BlockState::Allocated;
        let size = block.size;
        self.allocated = self.allocated.saturating_add(size);
        self.peak_allocated = self.peak_allocated.max(self.allocated);
        id
    }

    /// Takes a block back and merges it with its free neighbours.
    pub fn free(&mut self, id: BlockId) {
        let block = *self.block(id);
        assert_eq!(block.state, BlockState::Allocated, "blocks are freed once");
        // Sums saturate, so a graph of absurd sizes may have more to take away than was added.
        self.allocated = self.allocated.saturating_sub(block.size);
        if let Some(next) = block.next.filter(|next| self.block(*next).state == BlockState::Free) {
            self.unlist(next);
            self.merge(id, next);
        }
        let mut merged = id;
        if let Some(previous) = block.previous.filter(|id| self.block(*id).state == BlockState::Free) {
            self.unlist(previous);
            self.merge(previous, id);
            merged = previous;
        }
        self.block_mut(merged).state = BlockState::Free;
        self.list(merged);
    }

    /// Bytes in blocks that are handed out.
    pub fn allocated(&self) -> u64 {
        self.allocated
    }

    /// Bytes taken from the device.
    pub fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Most bytes that were handed out at once.
    pub fn peak_allocated(&self) -> u64 {
        self.peak_allocated
    }

    /// Most bytes that were taken from the device at once.
    pub fn peak_reserved(&self) -> u64 {
        self.peak_reserved
    }

    fn block(&self, BlockId(slot): BlockId) -> &Block {
        &self.blocks[slot as usize]
    }

    fn block_mut(&mut self, BlockId(slot): BlockId) -> &mut Block {
        &mut self.blocks[slot as usize]
    }

    fn free_of(&mut self, pool: Pool) -> &mut FreeList {
        match pool {
            Pool::Small => &mut self.free_small,
            Pool::Large => &mut self.free_large,
        }
    }

    fn list(&mut self, id: BlockId) {
        let Block { size, address, pool, .. } = *self.block(id);
        self.free_of(pool).insert((size, address, id));
    }

    fn unlist(&mut self, id: BlockId) {
        let Block { size, address, pool, .. } = *self.block(id);
        self.free_of(pool).remove(&(size, address, id));
    }

    fn insert(&mut self, block: Block) -> BlockId {
        match self.vacant.pop() {
            Some(id) => {
                *self.block_mut(id) = block;
                id
            }
            None => {
                self.blocks.push(block);
                BlockId(self.blocks.len() as u32 - 1)
            }
        }
    }

    fn vacate(&mut self, id: BlockId) {
        self.block_mut(id).state = BlockState::Vacant;
        self.vacant.push(id);
    }

    /// Joins a block with the one after it.
    fn merge(&mut self, first: BlockId, second: BlockId) {
        let Block { size, next, .. } = *self.block(second);
        let block = self.block_mut(first);
        block.size += size;
        block.next = next;
        if let Some(next) = next {
            self.block_mut(next).previous = Some(first);
        }
        self.vacate(second);
    }

    /// Takes a segment for a request: one free block, in no free list yet.
    fn take_segment(&mut self, request: u64, pool: Pool) -> BlockId {
        let size = match pool {
            Pool::Small => SMALL_SEGMENT,
            Pool::Large if request < MIN_OWN_SEGMENT => LARGE_SEGMENT,
            Pool::Large => request.checked_next_multiple_of(LARGE_ROUNDING).unwrap_or(request),
        };
        if self.capacity.is_some_and(|capacity| self.reserved.saturating_add(size) > capacity) {
            self.release_cached_segments();
        }
        let address = self.next_address;
        self.next_address = address.saturating_add(size);
        self.reserved = self.reserved.saturating_add(size);
        self.peak_reserved = self.peak_reserved.max(self.reserved);
        self.insert(Block { size, address, pool, state: BlockState::Free, previous: None, next: None })
    }

    /// Splits off what a request leaves of a block: anything in the small pool, more than 1 MiB in the large one.
    fn split(&mut self, id: BlockId, size: u64) {
        let block = *self.block(id);
        let rest = block.size - size;
        let splits = match block.pool {
            Pool::Small => rest >= MIN_BLOCK,
            Pool::Large => rest > SMALL_REQUEST,
        };
        if !splits {
            return;
        }
        let address = block.address.saturating_add(size);
        let remainder =
            self.insert(Block { size: rest, address, state: BlockState::Free, previous: Some(id), ..block });
        if let Some(next) = block.next {
            self.block_mut(next).previous = Some(remainder);
        }
        let block = self.block_mut(id);
        block.size = size;
        block.next = Some(remainder);
        self.list(remainder);
    }

    /// Returns segments that are one free block.
    fn release_cached_segments(&mut self) {
        let is_segment = |block: &Block| {
            block.state == BlockState::Free && block.previous.is_none() && block.next.is_none()
        };
        let ids = (0..self.blocks.len() as u32).map(BlockId);
        let released: Vec<BlockId> = ids.filter(|id| is_segment(self.block(*id))).collect();
        for id in released {
            self.unlist(id);
            self.reserved = self.reserved.saturating_sub(self.block(id).size);
            self.vacate(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn segments_have_the_sizes_of_pytorch() {
        for (request, reserved) in [
            (1, 2 * MIB),
            (MIB, 2 * MIB),
            (MIB + 1, 20 * MIB),
            (10 * MIB - 512, 20 * MIB),
            (10 * MIB, 10 * MIB),
            (10 * MIB + 1, 12 * MIB),
            (1001 * MIB, 1002 * MIB),
        ] {
            let mut allocator = CachingAllocator::default();
            allocator.allocate(request);
            assert_eq!(allocator.reserved(), reserved, "{request}");
        }
    }

    #[test]
    fn a_large_block_keeps_a_rest_of_up_to_a_mebibyte() {
        let mut allocator = CachingAllocator::default();
        allocator.allocate(19 * MIB);
        assert_eq!(allocator.allocated(), 20 * MIB, "the segment's last mebibyte is not split off");
        let mut allocator = CachingAllocator::default();
        allocator.allocate(3 * MIB);
        assert_eq!((allocator.allocated(), allocator.reserved()), (3 * MIB, 20 * MIB));
    }

    #[test]
    fn the_smallest_block_that_fits_is_used() {
        let mut allocator = CachingAllocator::default();
        let blocks = [30, 50, 40].map(|size| allocator.allocate(size * MIB));
        for block in blocks {
            allocator.free(block);
        }
        allocator.allocate(35 * MIB);
        allocator.allocate(50 * MIB);
        allocator.allocate(30 * MIB);
        assert_eq!(allocator.reserved(), 120 * MIB);
    }

    #[test]
    fn a_full_device_gets_cached_segments_back_first() {
        let mut allocator = CachingAllocator::with_capacity(Some(100 * MIB));
        let first = allocator.allocate(60 * MIB);
        allocator.free(first);
        allocator.allocate(70 * MIB);
        assert_eq!((allocator.reserved(), allocator.peak_reserved()), (70 * MIB, 70 * MIB));
    }

    proptest! {
        #[test]
        fn freeing_everything_leaves_whole_segments(sizes in prop::collection::vec(1u64..64 * MIB, 1..60), keep in any::<u64>()) {
            let mut allocator = CachingAllocator::default();
            let mut held = Vec::new();
            for (turn, size) in sizes.iter().enumerate() {
                held.push(allocator.allocate(*size));
                if keep >> (turn % 64) & 1 == 0 {
                    allocator.free(held.swap_remove(turn % held.len()));
                }
                prop_assert!(allocator.allocated() <= allocator.reserved());
            }
            for block in held {
                allocator.free(block);
            }
            prop_assert_eq!(allocator.allocated(), 0);
            let left: Vec<_> = allocator.blocks.iter().filter(|block| block.state != BlockState::Vacant).collect();
            prop_assert!(left.iter().all(|block| block.state == BlockState::Free && block.next.is_none() && block.previous.is_none()));
            prop_assert_eq!(left.iter().map(|block| block.size).sum::<u64>(), allocator.reserved());
        }
    }
}
