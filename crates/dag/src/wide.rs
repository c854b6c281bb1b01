//! Loops over all machines, compiled twice: as they are, and for processors with AVX2, which have twice the lanes.

/// `widened! { fn name(args) -> Type = plain }` makes `name`, which calls `plain` as the processor can. `plain` must be
/// `#[inline(always)]`, or it stays as narrow as it is.
macro_rules! widened {
    ($(#[$meta:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $result:ty)? = $plain:ident) => {
        $(#[$meta])*
        #[inline]
        #[cfg_attr(
            target_arch = "x86_64",
            expect(unsafe_code, reason = "only the processor knows whether it has the lanes")
        )]
        fn $name($($arg: $type),*) $(-> $result)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn wide($($arg: $type),*) $(-> $result)? {
                    $plain($($arg),*)
                }
                if std::is_x86_feature_detected!("avx2") {
                    // SAFETY: the processor was just asked.
                    return unsafe { wide($($arg),*) };
                }
            }
            $plain($($arg),*)
        }
    };
}

pub(crate) use widened;
