#pragma once
// Torus shape: ranks as the points of a torus, so that a collective can go round the rings of one dimension after the
// other. Pure.
//
// Nomenclature: place - a rank's coordinate in a dimension; ranks are numbered with the first dimension fastest. Part -
// a share of the elements that takes the dimensions in an order of its own, beginning with dimension p mod d and going
// on with the next ones. By cables - ring neighbours share cables: then the parts use all cables at once, in both
// directions where rings are longer than two. Elsewhere, behind switches, one part takes the dimensions as they come.
//
// n = k_1 ... k_d ranks, S bytes: 2 (k_1 - 1 + ... + k_d - 1) messages, one after the other, instead of a ring's
// 2(n-1), and as many bytes, 2(n-1)/n S a rank (Barnett, Littlefield, Payne, van de Geijn, "Global combine on mesh
// architectures with wormhole routing", 1993; Cho, Finkler, Serrano, Kung, Hunter, "BlueConnect", 2019). Rings of two
// are recursive halving and doubling, for any n that has other factors as well. Lengths that multiply to the ranks of a
// leaf switch, in front of the others, keep all but 1/k of the bytes below that switch.

#include <cstdint>
#include <string>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/coll/plan/mesh.h"
#include "plugin/coll/plan/plan.h"

namespace meshbed::coll {

struct TorusShape {
  std::vector<int> lengths{};            // each 2 or more; empty: there is no shape
  bool by_cables = false;                // ring neighbours share cables
  std::vector<int> mbps{};               // [dimension] of its slowest cable; by_cables alone
  std::vector<std::uint32_t> begins{0};  // [part] where it begins, in 65536ths; behind the last one 65536

  int dimensions() const { return static_cast<int>(lengths.size()); }
  int parts() const { return static_cast<int>(begins.size()) - 1; }
  /// Of the part, the `step`-th dimension.
  int dimension(int part, int step) const { return (part + step) % dimensions(); }
  /// Whether its rings turn to higher ranks.
  bool is_up(int part) const { return part < dimensions(); }
  /// The rank's place on that ring, from which the data go to the next higher place.
  int place(int part, int dimension, int rank) const;
  /// The next rank on that ring, or the one before (step -1).
  int neighbour(int part, int dimension, int rank, int step) const;
  Range share(int part, std::uint64_t count) const;
  /// That share, of 1.
  double portion(int part) const;
};

/// Numbers between x's, as in "4x4x8", each 2 or more; an error says what is wrong. They multiply to `ranks`.
Result<std::vector<int>> parse_shape(const std::string& text, int ranks);

/// Ascending.
std::vector<int> prime_factors(int number);

/// `wanted`: lengths, or none: those of the torus that `mesh` is, its ranks numbered with the first dimension fastest;
/// where nothing is known of cables, the prime factors of the number of ranks. Of cables that are no torus, or ranks
/// whose number is a prime, there is no shape.
TorusShape torus_shape(const Mesh& mesh, const std::vector<int>& wanted);

/// Behind switches, with rings of two alone.
bool is_recursive_halving(const TorusShape& shape);

/// [dimension] of a part's elements, reduced and scattered, the share that a rank sends on in that dimension.
std::vector<double> sent_by_dimension(const TorusShape& shape, int part);

}  // namespace meshbed::coll
