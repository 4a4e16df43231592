#pragma once

#include <arpa/inet.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <unistd.h>

namespace kvik {

// A connection to this machine that sends bytes as they are.
class RawClient {
 public:
  // `receive_bytes`: of the kernel's buffer; 0: as usual.
  explicit RawClient(int port, int receive_bytes = 0) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_bytes > 0) setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_connected_ = connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawClient() { close(socket_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool send(std::string_view bytes) const {
    return is_connected_ && ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }
  // Until `most` bytes are there or the connection is closed.
  std::string read(size_t most = SIZE_MAX) const {
    std::string answer;
    char buffer[4096];
    for (ssize_t n = 0; is_connected_ && answer.size() < most;) {
      n = recv(socket_, buffer, std::min(sizeof buffer, most - answer.size()), 0);
      if (n <= 0) break;
      answer.append(buffer, static_cast<size_t>(n));
    }
    return answer;
  }
  std::string read_until(std::string_view end) const {
    std::string answer;
    for (std::string next; !answer.ends_with(end) && !(next = read(1)).empty();) answer += next;
    return answer;
  }

 private:
  int socket_;
  bool is_connected_ = false;
};

}  // namespace kvik
