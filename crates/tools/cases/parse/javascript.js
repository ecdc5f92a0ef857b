import { readFile } from "fs";

// A store.
class Store extends Base {
  #items = new Map();
  size = 0;
  get(key) { return this.#items.get(key); }
  static open(path) { return new Store(path); }
}

const helper = (value) => transform(value);
function* walk(tree) { yield tree; }

Store.prototype.close = function () { cleanup(); };
exports.run = async () => { const local = 1; };
export default Store;
