//! State: damaged, lost and copied files, and clocks that jump.
