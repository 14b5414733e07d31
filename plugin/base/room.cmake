# Ground floor: the standard library only.
# terminate.cpp takes the place of a part of the static libstdc++; not in archives, whose users have the system's.
meshbed_room(terminate_objects PRODUCT FILES terminate.cpp)
meshbed_room(base_objects PRODUCT FOLDERS . EXCEPT terminate.cpp)
product_archive(meshbed_base base_objects)
