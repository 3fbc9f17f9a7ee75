// Conflicts between keys, once each of them is well formed. Floor 2, pure.
#pragma once

#include "config/reader.hpp"

namespace outboxd::config {

// Reports into `read`: keys that do not go together, secrets that are none, and what deserves a warning.
void validate(const config& c, reader& read);

}  // namespace outboxd::config
