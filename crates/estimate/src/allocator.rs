//! PyTorch's caching allocator for CUDA, replayed: requests are rounded to 512 bytes, served best-fit from cached blocks that
//! are split and merged, and segments of 2 MiB, 20 MiB or more are taken from the device when none fits. What it has taken is
//! what a GPU's tools show as used. Constants and rules are those of `c10/cuda/CUDACachingAllocator.cpp` with default settings.

use std::collections::{BTreeMap, BTreeSet};

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
pub struct BlockId(u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Block {
    size: u64,
    segment: u64,
    free: bool,
    pool: Pool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pool {
    Small,
    Large,
}

/// The allocator's state. Addresses are virtual: segments never touch, so that blocks merge only within one.
#[derive(Debug, Default)]
pub struct CachingAllocator {
    /// Every block by address, used or free.
    blocks: BTreeMap<u64, Block>,
    /// Free blocks of each pool by size, then address: the first that is large enough is the best fit.
    free_small: BTreeSet<(u64, u64)>,
    free_large: BTreeSet<(u64, u64)>,
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
        let found = self.free_of(pool).range((size, 0)..).next().copied();
        let address = match found {
            Some((free, address)) => {
                self.free_of(pool).remove(&(free, address));
                address
            }
            None => self.take_segment(size, pool),
        };
        self.split(address, size);
        let block = self.blocks.get_mut(&address).expect("it was found or made");
        block.free = false;
        self.allocated = self.allocated.saturating_add(block.size);
        self.peak_allocated = self.peak_allocated.max(self.allocated);
        BlockId(address)
    }

    /// Takes a block back and merges it with its free neighbours.
    pub fn free(&mut self, BlockId(mut address): BlockId) {
        let mut block = *self.blocks.get(&address).expect("blocks are freed once");
        assert!(!block.free, "blocks are freed once");
        self.allocated -= block.size;
        let after = self.blocks.range(address + 1..).next().map(|(at, next)| (*at, *next));
        if let Some((at, next)) = after.filter(|(_, next)| next.free && next.segment == block.segment) {
            self.free_of(block.pool).remove(&(next.size, at));
            self.blocks.remove(&at);
            block.size += next.size;
        }
        let before = self.blocks.range(..address).next_back().map(|(at, previous)| (*at, *previous));
        if let Some((at, previous)) = before.filter(|(_, b)| b.free && b.segment == block.segment) {
            self.free_of(block.pool).remove(&(previous.size, at));
            self.blocks.remove(&address);
            block.size += previous.size;
            address = at;
        }
        block.free = true;
        self.free_of(block.pool).insert((block.size, address));
        self.blocks.insert(address, block);
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

    fn free_of(&mut self, pool: Pool) -> &mut BTreeSet<(u64, u64)> {
        match pool {
            Pool::Small => &mut self.free_small,
            Pool::Large => &mut self.free_large,
        }
    }

    /// Takes a segment for a request; gives its address, where one free block begins that is in no free list yet.
    fn take_segment(&mut self, request: u64, pool: Pool) -> u64 {
        let size = match pool {
            Pool::Small => SMALL_SEGMENT,
            Pool::Large if request < MIN_OWN_SEGMENT => LARGE_SEGMENT,
            Pool::Large => request.checked_next_multiple_of(LARGE_ROUNDING).unwrap_or(request),
        };
        if self.capacity.is_some_and(|capacity| self.reserved.saturating_add(size) > capacity) {
            self.release_cached_segments();
        }
        let address = self.next_address;
        // A gap after each segment keeps an address from being the end of one and the beginning of another.
        self.next_address = address.saturating_add(size).saturating_add(MIN_BLOCK);
        self.blocks.insert(address, Block { size, segment: address, free: true, pool });
        self.reserved = self.reserved.saturating_add(size);
        self.peak_reserved = self.peak_reserved.max(self.reserved);
        address
    }

    /// Splits off what a request leaves of a block: anything in the small pool, more than 1 MiB in the large one.
    fn split(&mut self, address: u64, size: u64) {
        let block = self.blocks.get_mut(&address).expect("it was found or made");
        let (rest, pool, segment) = (block.size - size, block.pool, block.segment);
        let splits = match pool {
            Pool::Small => rest >= MIN_BLOCK,
            Pool::Large => rest > SMALL_REQUEST,
        };
        if splits {
            block.size = size;
            self.blocks.insert(address + size, Block { size: rest, segment, free: true, pool });
            self.free_of(pool).insert((rest, address + size));
        }
    }

    fn release_cached_segments(&mut self) {
        let ends = |at: u64, block: &Block| at.saturating_add(block.size);
        let mut sizes: BTreeMap<u64, u64> = BTreeMap::new();
        for (at, block) in &self.blocks {
            let end = ends(*at, block) - block.segment;
            let size = sizes.entry(block.segment).or_default();
            *size = end.max(*size);
        }
        let whole = |(at, block): (&u64, &Block)| {
            (block.free && *at == block.segment && sizes[&block.segment] == block.size)
                .then_some((*at, *block))
        };
        let released: Vec<_> = self.blocks.iter().filter_map(whole).collect();
        for (at, block) in released {
            self.free_of(block.pool).remove(&(block.size, at));
            self.blocks.remove(&at);
            self.reserved -= block.size;
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
            prop_assert!(allocator.blocks.iter().all(|(at, block)| block.free && *at == block.segment));
            let free: u64 = allocator.blocks.values().map(|block| block.size).sum();
            prop_assert_eq!(free, allocator.reserved());
        }
    }
}
