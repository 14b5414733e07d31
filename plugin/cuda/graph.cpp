#include "plugin/cuda/graph.h"

namespace meshbed::cuda {

Result<Graph> Graph::record(const Driver& driver, const Stream& stream, const std::function<Result<void>()>& give) {
  const auto context = driver.current();
  if (!context) return context.error();
  const Calls& calls = driver.calls();
  auto done = driver.outcome(calls.cuStreamBeginCapture(stream.handle(), kCaptureRelaxed), "cuStreamBeginCapture");
  if (!done) return done.error();
  const Result<void> given = give();
  CUgraph recorded = nullptr;
  done = driver.outcome(calls.cuStreamEndCapture(stream.handle(), &recorded), "cuStreamEndCapture");
  Graph graph;
  graph.driver_ = &driver;
  graph.context_ = *context;
  if (given && done) {
    done = driver.outcome(calls.cuGraphInstantiateWithFlags(&graph.executable_, recorded, 0),
                          "cuGraphInstantiateWithFlags");
  }
  if (recorded != nullptr) calls.cuGraphDestroy(recorded);
  if (!given) return given.error();
  if (!done) return done.error();
  return graph;
}

Graph::~Graph() {
  if (executable_ == nullptr) return;
  const Current current(*driver_, context_);
  driver_->calls().cuGraphExecDestroy(executable_);
}

Result<void> Graph::launch(const Stream& stream) const {
  return driver_->outcome(driver_->calls().cuGraphLaunch(executable_, stream.handle()), "cuGraphLaunch");
}

}  // namespace meshbed::cuda
