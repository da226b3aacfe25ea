<?php

use PHPUnit\Framework\TestCase;

final class GaugeTest extends TestCase
{
    public function testIsDryAtFirst(): void
    {
        $this->assertNull((new Gauge())->mean());
    }

    public function testRefusesWaterBelowTheBed(): void
    {
        $this->expectException(InvalidArgumentException::class);
        (new Gauge())->read(-1);
    }

    public function testTakesTheMean(): void
    {
        $gauge = new Gauge();
        $gauge->read(1);
        $gauge->read(2);
        $this->assertSame(1.5, $gauge->mean());
    }
}
