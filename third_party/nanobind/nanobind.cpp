// nanobind's library, whose sources come with its wheel. Each extension links a copy.
#include <nb_combined.cpp>
