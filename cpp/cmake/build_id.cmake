# Writes the linker's option that sets the build id: a digest of object files, in the given order.
#
#   cmake -DOBJECTS=<file>;... -DOUTPUT=<file> -P build_id.cmake
foreach(object IN LISTS OBJECTS)
  file(SHA256 "${object}" digest)
  string(APPEND digests "${digest}")
endforeach()
string(SHA256 digest "${digests}")
file(WRITE "${OUTPUT}" "-Wl,--build-id=0x${digest}\n")
