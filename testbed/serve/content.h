#pragma once
// Content: the contents of each address of the server, made from a results folder or from running plugins. It uses no
// sockets.
//
// The addresses are a fixed list: no part of a request becomes a file name. Nothing is written. Contents made from a
// folder are cached until one of its files changes.

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "testbed/result/zernel/stream.h"

namespace meshbed::testbed::serve {

struct Reply {
  unsigned status = 200;
  std::string type;  // of its content
  std::string body;
  int refresh_s = 0;  // a browser shall fetch it again after this; 0: not
};

/// A reply in one line of plain text.
Reply plain_reply(unsigned status, std::string text);

inline constexpr const char* kMetricsType = "text/plain; version=0.0.4; charset=utf-8";

class Content {
 public:
  Content() = default;
  virtual ~Content() = default;
  Content(const Content&) = delete;
  Content& operator=(const Content&) = delete;

  /// `path`: of the request, without its query: "/metrics". 404: there is no such address. 503: what it is made of
  /// cannot be read now; the body has the cause. One call at a time.
  Reply reply(std::string_view path);
  /// What a WebSocket client gets, one JSON object; empty: it cannot be made now. One call at a time.
  std::string snapshot();
  /// What it is made of, for the line that the command prints.
  virtual std::string description() const = 0;

 protected:
  /// All of them throw std::runtime_error where it cannot be made now.
  virtual std::string metrics() = 0;
  virtual std::string json() = 0;
  virtual Reply page() = 0;
  /// Addresses that only one kind has; 404 for others.
  virtual Reply other(std::string_view path) = 0;
};

/// Of a results folder: the records that `run --zernel-out` wrote into it or into its folder "zernel", and the report
/// of the runs and sweeps in it.
class ResultsContent : public Content {
 public:
  /// Throws std::runtime_error where `folder` is no folder.
  explicit ResultsContent(std::string folder);
  std::string description() const override { return folder_; }

 private:
  std::string metrics() override;
  std::string json() override;
  Reply page() override;
  Reply other(std::string_view path) override;
  const zernel::Streams& streams();

  std::string folder_;
  std::string streams_made_of_, page_made_of_;  // the files' names, sizes and times
  zernel::Streams streams_;
  std::string page_;
};

/// Of the processes of this machine that have a Mesh plugin, by their state sockets.
class LiveContent : public Content {
 public:
  /// `sockets`: as `meshbed state` takes them; empty: all that are found.
  explicit LiveContent(std::vector<std::string> sockets) : words_(std::move(sockets)) {}
  std::string description() const override { return "the running processes with a Mesh plugin"; }

 private:
  std::string metrics() override;
  std::string json() override;
  Reply page() override;
  Reply other(std::string_view path) override;
  /// One JSON text a process.
  std::vector<std::string> states() const;

  std::vector<std::string> words_;
};

}  // namespace meshbed::testbed::serve
