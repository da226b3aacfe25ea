// Waits, and says for how long it was asked to.
export function after(ms) {
  return new Promise((resolve) => setTimeout(() => resolve(ms), ms));
}
