#include "plugin/dropin/mpi/handles.h"

namespace {

using meshbed::dropin::mpi::HandleKind;
using meshbed::dropin::mpi::kMagic;
using meshbed::dropin::mpi::Predefined;

// Sizes of Open MPI's data symbols, as readelf shows them in libmpi.so.40 of 4.1.4.
using PredefinedCommunicator = Predefined<512>;
using PredefinedDatatype = Predefined<512>;
using PredefinedOperation = Predefined<2048>;
using PredefinedRequest = Predefined<256>;
using PredefinedInfo = Predefined<256>;
using PredefinedErrorHandler = Predefined<1024>;

template <typename T, typename Number>
constexpr T predefined(HandleKind kind, Number number) {
  return {{kMagic, kind, static_cast<std::uint32_t>(number)}, {}};
}
template <typename Number>
constexpr PredefinedDatatype datatype(Number number) {
  return predefined<PredefinedDatatype>(HandleKind::kDatatype, number);
}
template <typename Number>
constexpr PredefinedOperation operation(Number number) {
  return predefined<PredefinedOperation>(HandleKind::kOperation, number);
}
template <typename Number>
constexpr PredefinedCommunicator communicator(Number number) {
  return predefined<PredefinedCommunicator>(HandleKind::kCommunicator, number);
}
template <typename Number>
constexpr PredefinedErrorHandler error_handler(Number number) {
  return predefined<PredefinedErrorHandler>(HandleKind::kErrorHandler, number);
}

}  // namespace

#pragma GCC visibility push(default)

struct ompi_predefined_communicator_t : PredefinedCommunicator {};
struct ompi_predefined_datatype_t : PredefinedDatatype {};
struct ompi_predefined_op_t : PredefinedOperation {};
struct ompi_predefined_request_t : PredefinedRequest {};
struct ompi_predefined_info_t : PredefinedInfo {};
struct ompi_predefined_errhandler_t : PredefinedErrorHandler {};

namespace mpi = meshbed::dropin::mpi;

ompi_predefined_communicator_t ompi_mpi_comm_world{communicator(mpi::kWorld)},
    ompi_mpi_comm_self{communicator(mpi::kSelf)}, ompi_mpi_comm_null{communicator(mpi::kNull)};
ompi_predefined_request_t ompi_request_null{predefined<PredefinedRequest>(HandleKind::kRequest, 0)};
ompi_predefined_info_t ompi_mpi_info_null{predefined<PredefinedInfo>(HandleKind::kInfo, 0)};
ompi_predefined_errhandler_t ompi_mpi_errors_are_fatal{error_handler(mpi::kErrorsAreFatal)},
    ompi_mpi_errors_return{error_handler(mpi::kErrorsReturn)};

ompi_predefined_datatype_t ompi_mpi_datatype_null{datatype(mpi::Type::kNull)},
    ompi_mpi_byte{datatype(mpi::Type::kByte)}, ompi_mpi_char{datatype(mpi::Type::kInt8)},
    ompi_mpi_signed_char{datatype(mpi::Type::kInt8)}, ompi_mpi_unsigned_char{datatype(mpi::Type::kUint8)},
    ompi_mpi_short{datatype(mpi::Type::kInt16)}, ompi_mpi_unsigned_short{datatype(mpi::Type::kUint16)},
    ompi_mpi_int{datatype(mpi::Type::kInt32)}, ompi_mpi_unsigned{datatype(mpi::Type::kUint32)},
    ompi_mpi_long{datatype(mpi::Type::kInt64)}, ompi_mpi_unsigned_long{datatype(mpi::Type::kUint64)},
    ompi_mpi_long_long_int{datatype(mpi::Type::kInt64)}, ompi_mpi_unsigned_long_long{datatype(mpi::Type::kUint64)},
    ompi_mpi_float{datatype(mpi::Type::kFloat)}, ompi_mpi_double{datatype(mpi::Type::kDouble)},
    ompi_mpi_int8_t{datatype(mpi::Type::kInt8)}, ompi_mpi_uint8_t{datatype(mpi::Type::kUint8)},
    ompi_mpi_int16_t{datatype(mpi::Type::kInt16)}, ompi_mpi_uint16_t{datatype(mpi::Type::kUint16)},
    ompi_mpi_int32_t{datatype(mpi::Type::kInt32)}, ompi_mpi_uint32_t{datatype(mpi::Type::kUint32)},
    ompi_mpi_int64_t{datatype(mpi::Type::kInt64)}, ompi_mpi_uint64_t{datatype(mpi::Type::kUint64)},
    ompi_mpi_c_bool{datatype(mpi::Type::kBool)};

ompi_predefined_op_t ompi_mpi_op_null{operation(mpi::Operation::kNull)},
    ompi_mpi_op_max{operation(mpi::Operation::kMax)}, ompi_mpi_op_min{operation(mpi::Operation::kMin)},
    ompi_mpi_op_sum{operation(mpi::Operation::kSum)}, ompi_mpi_op_prod{operation(mpi::Operation::kProd)},
    ompi_mpi_op_land{operation(mpi::Operation::kLand)}, ompi_mpi_op_band{operation(mpi::Operation::kBand)},
    ompi_mpi_op_lor{operation(mpi::Operation::kLor)}, ompi_mpi_op_bor{operation(mpi::Operation::kBor)},
    ompi_mpi_op_lxor{operation(mpi::Operation::kLxor)}, ompi_mpi_op_bxor{operation(mpi::Operation::kBxor)};

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
