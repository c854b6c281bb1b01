//! Function multiversioning: loops over all machines compiled twice, for the baseline and for AVX2, and dispatched at
//! run time.

/// `multiversioned! { fn name(args) -> Type = scalar }` defines `name`, which calls `scalar` compiled for the best
/// instruction set of the processor. `scalar` must be `#[inline(always)]`: otherwise it is compiled for the baseline
/// only.
macro_rules! multiversioned {
    ($(#[$meta:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $result:ty)? = $scalar:ident) => {
        $(#[$meta])*
        #[inline]
        #[cfg_attr(
            target_arch = "x86_64",
            expect(unsafe_code, reason = "the instruction set is detected at run time")
        )]
        fn $name($($arg: $type),*) $(-> $result)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn avx2($($arg: $type),*) $(-> $result)? {
                    $scalar($($arg),*)
                }
                if std::is_x86_feature_detected!("avx2") {
                    // SAFETY: AVX2 was detected just above.
                    return unsafe { avx2($($arg),*) };
                }
            }
            $scalar($($arg),*)
        }
    };
}

pub(crate) use multiversioned;
