// Written by hatch-tensoracle from bundle.json; not for editing. The paths are relative to the bundle directory.

// A section of its own, so that inspection finds the cubins in the finished library.
asm(R"(
  .pushsection .tensoracle.cubins, "a", @progbits
  .balign $alignment
  .globl $symbol
  .hidden $symbol
$symbol:
$incbins
  .balign $alignment
  .popsection
)");
