// How a function of the C ABI is defined: visible, where everything else in the library is hidden. Which version node
// it is exported under is a matter of symbols.tsv.
#pragma once

#define VERBATIM_EXPORT extern "C" __attribute__((visibility("default")))
