import { describe, expect, it } from 'vitest';
import { Queue } from '../src/queue.js';

describe('queue', () => {
  it('is empty at first', () => {
    expect(new Queue().next()).toBeNull();
  });

  it('keeps the order of arrival', () => {
    const queue = new Queue();
    queue.join('Anna');
    queue.join('Berta');
    expect([queue.next(), queue.next()]).toEqual(['Anna', 'Berta']);
  });

  it('lets the mail pass', () => {
    const queue = new Queue();
    queue.join('coal');
    expect(queue.join('letters', { mail: true })).toBe(2);
    expect(queue.next()).toBe('letters');
  });
});
