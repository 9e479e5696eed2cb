// The VERBATIM_* variables, in one table: what each may hold. The libraries read them and print nothing, so a
// misspelt one would go unnoticed; the tool says so instead. verbatim(7) describes each documented row.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace verbatim::tool {

struct Variable {
  std::string_view name;
  std::string_view form;  // what a value looks like, as a person reads it
  bool (*valid)(std::string_view value);
  bool documented;  // false: a hook of our own tests
};

const std::vector<Variable>& known_variables();

// One sentence for each VERBATIM_* entry of an environment (a null-terminated array of NAME=VALUE) that no row of
// the table knows or whose value its row does not accept. In the environment's order.
std::vector<std::string> complaints(const char* const* environment);

}  // namespace verbatim::tool
