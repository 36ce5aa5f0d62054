// A library to be found. WHERE says which one was.
extern "C" int pteron_toy_where() { return WHERE; }
