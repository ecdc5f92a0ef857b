import { x as y } from "z";
/** doc */
export default class P<T> extends Q implements I {
  private x = 1;
  static K: number;
  @dec() m(a: string): void { this.g(a); new Z(); }
  constructor() { super(); }
  arrow = () => 1;
}
// fn doc
export const fn = async (a) => {
  const local = 1;
  f(a)
};
interface I { z(): void; q: string }
type T = { a: 1 };
enum E { A, B = 1 }
namespace N { const q = 1; }
declare function dd(): void;
const o = { k: 1, m() {}, f: function() {} };
module.exports.foo = function() {};
const MAX_SIZE = 3;
