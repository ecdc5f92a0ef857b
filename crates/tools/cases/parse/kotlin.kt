package a.b
import x.Y

/** doc */
@Anno
data class P(val x: Int) : Base(), I {
  // c
  val y = 1
  companion object {
    const val MAX = 3
    fun make(): P = P(1)
  }
  fun f(a: Int): String {
    val local = 1
    return g(a)
  }
  constructor(a: String) : this(1)
  enum class C { A, B }
}

interface I {
  fun z()
}
object O {
  const val K = 1
}
typealias T = List<Int>
fun String.ext() = this.foo(1)
