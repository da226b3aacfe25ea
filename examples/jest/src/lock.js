// A canal lock: two gates and the water between them.
class Lock {
  constructor(lower, upper) {
    if (upper < lower) throw new RangeError('the upper level lies below the lower');
    this.lower = lower;
    this.upper = upper;
    this.level = lower;
    this.open = 'lower';
  }

  fill() {
    this.open = null;
    this.level = this.upper;
  }

  empty() {
    this.open = null;
    this.level = this.lower;
  }

  openGate(gate) {
    if (this.level !== this[gate]) throw new Error(`the ${gate} gate is held shut by the water`);
    this.open = gate;
  }
}

module.exports = { Lock };
