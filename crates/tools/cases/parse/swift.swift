import Foundation
/// doc
public class A: B, P {
  let x: Int = 1
  var y: String { return "a" }
  init(a: Int) { self.x = a }
  /// f doc
  func f(_ a: Int) -> String { return g(a) }
  enum E { case a, b(Int) }
}
struct S<T> {}
protocol P { func z(); var q: Int { get } }
extension A { func ext() {} }
typealias T = [Int]
let K = 1
func top() { obj.call(1) }
