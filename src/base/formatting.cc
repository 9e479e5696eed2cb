// The one place where fmt's implementation is compiled: Debian has it as a shared library, which we must not need, and
// as headers, which would compile it again in every source that logs.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {
// What the headers declare as instantiated elsewhere.
template thousands_sep_result<char> thousands_sep_impl<char>(locale_ref);
template char decimal_point_impl<char>(locale_ref);
}  // namespace detail
FMT_END_NAMESPACE
