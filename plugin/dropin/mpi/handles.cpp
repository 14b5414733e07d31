#include "plugin/dropin/mpi/handles.h"

#pragma GCC visibility push(default)

using meshbed::dropin::mpi::HandleKind;
using meshbed::dropin::mpi::Predefined;

// Sizes of Open MPI's data symbols, as readelf shows them in libmpi.so.40 of 4.1.4.
#define MESHBED_PREDEFINED(name, kind, bytes)              \
  struct name : Predefined<HandleKind::kind, bytes> {      \
    using Predefined<HandleKind::kind, bytes>::Predefined; \
  }
MESHBED_PREDEFINED(ompi_predefined_communicator_t, kCommunicator, 512);
MESHBED_PREDEFINED(ompi_predefined_datatype_t, kDatatype, 512);
MESHBED_PREDEFINED(ompi_predefined_op_t, kOperation, 2048);
MESHBED_PREDEFINED(ompi_predefined_request_t, kRequest, 256);
MESHBED_PREDEFINED(ompi_predefined_info_t, kInfo, 256);
MESHBED_PREDEFINED(ompi_predefined_errhandler_t, kErrorHandler, 1024);

namespace mpi = meshbed::dropin::mpi;

constinit ompi_predefined_communicator_t ompi_mpi_comm_world{mpi::kWorld}, ompi_mpi_comm_self{mpi::kSelf},
    ompi_mpi_comm_null{mpi::kNull};
constinit ompi_predefined_request_t ompi_request_null{0};
constinit ompi_predefined_info_t ompi_mpi_info_null{0};
constinit ompi_predefined_errhandler_t ompi_mpi_errors_are_fatal{mpi::kErrorsAreFatal},
    ompi_mpi_errors_return{mpi::kErrorsReturn};

constinit ompi_predefined_datatype_t ompi_mpi_datatype_null{mpi::Type::kNull}, ompi_mpi_byte{mpi::Type::kByte},
    ompi_mpi_char{mpi::Type::kInt8}, ompi_mpi_signed_char{mpi::Type::kInt8}, ompi_mpi_unsigned_char{mpi::Type::kUint8},
    ompi_mpi_short{mpi::Type::kInt16}, ompi_mpi_unsigned_short{mpi::Type::kUint16}, ompi_mpi_int{mpi::Type::kInt32},
    ompi_mpi_unsigned{mpi::Type::kUint32}, ompi_mpi_long{mpi::Type::kInt64}, ompi_mpi_unsigned_long{mpi::Type::kUint64},
    ompi_mpi_long_long_int{mpi::Type::kInt64}, ompi_mpi_unsigned_long_long{mpi::Type::kUint64},
    ompi_mpi_float{mpi::Type::kFloat}, ompi_mpi_double{mpi::Type::kDouble}, ompi_mpi_int8_t{mpi::Type::kInt8},
    ompi_mpi_uint8_t{mpi::Type::kUint8}, ompi_mpi_int16_t{mpi::Type::kInt16}, ompi_mpi_uint16_t{mpi::Type::kUint16},
    ompi_mpi_int32_t{mpi::Type::kInt32}, ompi_mpi_uint32_t{mpi::Type::kUint32}, ompi_mpi_int64_t{mpi::Type::kInt64},
    ompi_mpi_uint64_t{mpi::Type::kUint64}, ompi_mpi_c_bool{mpi::Type::kBool};

constinit ompi_predefined_op_t ompi_mpi_op_null{mpi::Operation::kNull}, ompi_mpi_op_max{mpi::Operation::kMax},
    ompi_mpi_op_min{mpi::Operation::kMin}, ompi_mpi_op_sum{mpi::Operation::kSum},
    ompi_mpi_op_prod{mpi::Operation::kProd}, ompi_mpi_op_land{mpi::Operation::kLand},
    ompi_mpi_op_band{mpi::Operation::kBand}, ompi_mpi_op_lor{mpi::Operation::kLor},
    ompi_mpi_op_bor{mpi::Operation::kBor}, ompi_mpi_op_lxor{mpi::Operation::kLxor},
    ompi_mpi_op_bxor{mpi::Operation::kBxor};

#pragma GCC visibility pop

namespace meshbed::dropin::mpi {

const Handle* handle_of(const void* pointer, HandleKind kind) {
  if (pointer == nullptr) return nullptr;
  const auto* handle = static_cast<const Handle*>(pointer);
  return handle->magic == kMagic && handle->kind == kind ? handle : nullptr;
}

Type type_of(MPI_Datatype datatype) {
  const Handle* handle = handle_of(datatype, HandleKind::kDatatype);
  return handle == nullptr ? Type::kNull : static_cast<Type>(handle->number);
}

std::size_t size_of(Type type) {
  switch (type) {
    case Type::kNull:
      return 0;
    case Type::kByte:
    case Type::kInt8:
    case Type::kUint8:
    case Type::kBool:
      return 1;
    case Type::kInt16:
    case Type::kUint16:
      return 2;
    case Type::kInt32:
    case Type::kUint32:
    case Type::kFloat:
      return 4;
    case Type::kInt64:
    case Type::kUint64:
    case Type::kDouble:
      return 8;
  }
  return 0;
}

Operation operation_of(MPI_Op op) {
  const Handle* handle = handle_of(op, HandleKind::kOperation);
  return handle == nullptr ? Operation::kNull : static_cast<Operation>(handle->number);
}

}  // namespace meshbed::dropin::mpi
