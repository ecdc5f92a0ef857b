#include <vector>
namespace a { namespace b::c {
/// doc
template <typename T>
class P : public Q {
public:
  int x;
  P(int a);
  ~P();
  void f(T a) const { g(a); this->h(); }
  static const int K = 1;
  enum E { A, B };
  using U = int;
  bool operator==(const P&);
};
int* fn(int a, char** b);
void P::f2(int a) { int local = 1; x::y(); }
typedef struct Foo { int a; } Foo;
#define M(x) x
int v = 1; extern const char *names[];
int (*callback)(int);
}}
