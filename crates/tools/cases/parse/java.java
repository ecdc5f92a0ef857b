package a.b;
import x.Y;
/** doc */
@A public class P<T> extends Q implements I {
  private int x = 1, w;
  static final int K = 1;
  P(int a) {}
  /** f doc */
  public String f(int a) { int local = 1; return this.g(a) + new Z(); }
  enum E { A, B; void m() {} }
  record R(int a) {}
  interface J { void z(); }
}
