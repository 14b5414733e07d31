# The writer of Perfetto's format, by hand and not with Debian's libprotozero-dev: it is less than what looks for a
# package, and every build has it.
meshbed_room(perfetto_objects PRODUCT FOLDERS .)
product_archive(meshbed_perfetto perfetto_objects)
