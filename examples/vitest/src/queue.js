// Boats that wait for a lock: first come, first served, but mail goes before freight.
export class Queue {
  #mail = [];
  #freight = [];

  join(boat, { mail = false } = {}) {
    (mail ? this.#mail : this.#freight).push(boat);
    return this.length;
  }

  next() {
    return this.#mail.shift() ?? this.#freight.shift() ?? null;
  }

  get length() {
    return this.#mail.length + this.#freight.length;
  }
}
