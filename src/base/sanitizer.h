// Which sanitizer this is compiled under, as gcc and clang say it each in their own way: a macro of ours that is
// defined under the AddressSanitizer, and one under the ThreadSanitizer (a constant too, where both ways compile).
#pragma once

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define VERBATIM_ADDRESS_SANITIZER
#endif
#if __has_feature(thread_sanitizer)
#define VERBATIM_THREAD_SANITIZER
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(VERBATIM_ADDRESS_SANITIZER)
#define VERBATIM_ADDRESS_SANITIZER
#endif
#if defined(__SANITIZE_THREAD__) && !defined(VERBATIM_THREAD_SANITIZER)
#define VERBATIM_THREAD_SANITIZER
#endif

namespace verbatim {

#if defined(VERBATIM_THREAD_SANITIZER)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

}  // namespace verbatim
