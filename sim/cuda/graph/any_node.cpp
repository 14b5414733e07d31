// Nodes of any kind by one call (cuGraphAddNode, cuGraphNodeSetParams, cuGraphExecNodeSetParams): each is the call of
// its kind.

#include "sim/cuda/graph/nodes.h"

namespace meshbed::sim::cuda {
namespace {

CUresult refuse_kind(const char* call, int type) {
  constexpr int kLast = 13;  // conditional
  return type < 0 || type > kLast ? kInvalidValue : refuse(std::string(call) + " of type " + std::to_string(type));
}

}  // namespace

CUresult cuGraphAddNode(GraphNode** node, Graph* graph, GraphNode* const* before, std::size_t count,
                        CUgraphNodeParams* wanted) {
  if (wanted == nullptr) return kInvalidValue;
  auto& of = wanted->of;
  switch (wanted->type) {
    case kKernelNode:
      return cuGraphAddKernelNode_v2(node, graph, before, count, &of.kernel);
    case kCopyNode:
      return cuGraphAddMemcpyNode(node, graph, before, count, &of.copy.parameters, of.copy.context);
    case kFillNode:
      return cuGraphAddMemsetNode(node, graph, before, count, &of.fill.parameters, of.fill.context);
    case kHostNode:
      return cuGraphAddHostNode(node, graph, before, count, &of.host);
    case kChildNode:
      if (of.child.ownership != 0) return refuse("cuGraphAddNode with a child that the node takes over");
      return cuGraphAddChildGraphNode(node, graph, before, count, of.child.graph);
    case kEmptyNode:
      return cuGraphAddEmptyNode(node, graph, before, count);
    case kWaitEventNode:
      return cuGraphAddEventWaitNode(node, graph, before, count, of.event);
    case kRecordEventNode:
      return cuGraphAddEventRecordNode(node, graph, before, count, of.event);
    case kAllocNode:
      return cuGraphAddMemAllocNode(node, graph, before, count, &of.memory);
    case kFreeNode:
      return cuGraphAddMemFreeNode(node, graph, before, count, of.freed);
    default:
      return refuse_kind("cuGraphAddNode", wanted->type);
  }
}

CUresult cuGraphAddNode_v2(GraphNode** node, Graph* graph, GraphNode* const* before, const CUgraphEdgeData* edges,
                           std::size_t count, CUgraphNodeParams* wanted) {
  const CUresult error = refuse_edge_data(edges, count);
  return error != kSuccess ? error : cuGraphAddNode(node, graph, before, count, wanted);
}

CUresult cuGraphNodeSetParams(GraphNode* node, CUgraphNodeParams* wanted) {
  if (wanted == nullptr) return kInvalidValue;
  const auto& of = wanted->of;
  switch (wanted->type) {
    case kKernelNode:
      return cuGraphKernelNodeSetParams_v2(node, &of.kernel);
    case kCopyNode:
      return cuGraphMemcpyNodeSetParams(node, &of.copy.parameters);
    case kFillNode:
      return cuGraphMemsetNodeSetParams(node, &of.fill.parameters);
    case kHostNode:
      return cuGraphHostNodeSetParams(node, &of.host);
    case kWaitEventNode:
      return cuGraphEventWaitNodeSetEvent(node, of.event);
    case kRecordEventNode:
      return cuGraphEventRecordNodeSetEvent(node, of.event);
    default:
      return refuse_kind("cuGraphNodeSetParams", wanted->type);
  }
}

CUresult cuGraphExecNodeSetParams(GraphExec* executable, GraphNode* node, CUgraphNodeParams* wanted) {
  if (wanted == nullptr) return kInvalidValue;
  const auto& of = wanted->of;
  switch (wanted->type) {
    case kKernelNode:
      return cuGraphExecKernelNodeSetParams_v2(executable, node, &of.kernel);
    case kCopyNode:
      return cuGraphExecMemcpyNodeSetParams(executable, node, &of.copy.parameters, of.copy.context);
    case kFillNode:
      return cuGraphExecMemsetNodeSetParams(executable, node, &of.fill.parameters, of.fill.context);
    case kHostNode:
      return cuGraphExecHostNodeSetParams(executable, node, &of.host);
    case kChildNode:
      return cuGraphExecChildGraphNodeSetParams(executable, node, of.child.graph);
    case kWaitEventNode:
      return cuGraphExecEventWaitNodeSetEvent(executable, node, of.event);
    case kRecordEventNode:
      return cuGraphExecEventRecordNodeSetEvent(executable, node, of.event);
    default:
      return refuse_kind("cuGraphExecNodeSetParams", wanted->type);
  }
}

}  // namespace meshbed::sim::cuda
