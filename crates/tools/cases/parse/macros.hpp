#pragma once
LIB_NAMESPACE_BEGIN(net)

/// Keeps connections.
class LIB_EXPORT Pool : public Base {
  LIB_OBJECT
  LIB_PROPERTY(int, size)
 public:
  explicit Pool(int size);
  LIB_EXPORT int take(int wait) { return wait; }
};

template <class T>
struct LIB_API LIB_DEPRECATED("use Pool") Old final : Base
{
  int kept;
};

enum class LIB_API Colour : int { Red, Green };

class LIB_API Later;
LIB_EXPORT Pool* make_pool(int size);
struct LIMIT most = {0};

LIB_NAMESPACE_END(net)
