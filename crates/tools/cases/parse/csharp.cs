using System;
namespace A.B {
/// <summary>doc</summary>
[Attr]
public class P<T> : Base, I {
  private int x = 1;
  public const int MAX = 2;
  public int Y { get; set; }
  public P(int a) {}
  public string F(int a) { var z = 1; return this.G(a) + new Q(); }
  delegate void D(int x);
}
record R(int A);
enum C { A, B }
interface I { void Z(); }
}
