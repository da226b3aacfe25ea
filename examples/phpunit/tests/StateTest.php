<?php

use PHPUnit\Framework\TestCase;

final class StateTest extends TestCase
{
    public function testSaysFlood(): void
    {
        $this->assertSame('flood', $this->stateAt(4));
    }

    public function testSaysFair(): void
    {
        $this->assertSame('fair', $this->stateAt(2));
    }

    public function testIce(): void
    {
        $this->markTestSkipped('no gauge for ice');
    }

    private function stateAt(float $metres): string
    {
        $gauge = new Gauge();
        $gauge->read($metres);
        return $gauge->state();
    }
}
