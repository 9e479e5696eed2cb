// One thing that `verbatim doctor` looked at: what was found, and what follows from it. Plain values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace verbatim::tool {

enum class Mark {
  ok,
  note,     // programs run; there is something to know
  slower,   // programs run, with less speed than elsewhere
  missing,  // programs do not run here as they would on an RDMA NIC
};

std::string_view mark_name(Mark mark);

struct Check {
  Mark mark = Mark::ok;
  std::string name;
  std::string finding;      // a phrase
  std::string consequence;  // sentences
};

// "MARK NAME: FINDING. CONSEQUENCE", without a newline.
std::string line(const Check& check);

// The names of those whose mark is `missing`, in order, without repetition.
std::vector<std::string> missing_names(const std::vector<Check>& checks);

}  // namespace verbatim::tool
